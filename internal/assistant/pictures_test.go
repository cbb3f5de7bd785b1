package assistant

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPictures: a picture that comes as a URL of the server, which only the run token opens, is given to the model as its bytes,
// wherever the URL has it, and is read once; one that is gone is a text.
func TestPictures(t *testing.T) {
	t.Parallel()
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 5<<20)...)
	path := func(i int) string { return fmt.Sprintf("/api/threads/s/parts/%064x", i) }
	var asked struct{ Messages []json.RawMessage }
	read := 0
	s := &server{tools: noTools, model: streamed(`{"choices":[{"delta":{"content":"seen"}}]}`, `[DONE]`)}
	s.asked = func(body []byte) {
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
	}
	s.part = func(w http.ResponseWriter, at string) {
		if read++; at == path(99) {
			http.NotFound(w, nil)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(png)
	}
	picture := func(url string) string { return fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q}}`, url) }
	message := func(name string, parts ...string) string {
		return `{"role":"user","name":"` + name + `","content":[{"type":"text","text":"What is it?"},` + strings.Join(parts, ",") + `]}`
	}
	messages := []string{`{"role":"user","content":"see /parts/ of it"}`}
	messages = append(messages, message("ann", picture("http://127.0.0.1:1"+path(6))), message("bob", picture(path(6)), picture(path(99)), picture("https://x.example/a.png")))
	got := s.frames(t, `{"run_id":"r","messages":[`+strings.Join(messages, ",")+`]}`)
	if got[0] != `delta {"text":"seen"}` || len(asked.Messages) != len(messages) {
		t.Fatalf("%q", got)
	}
	inlined := picture("data:image/png;base64," + base64.StdEncoding.EncodeToString(png))
	missing := func(why string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, why) }
	for i, want := range []string{
		messages[0], message("ann", inlined), message("bob", inlined, missing(noPicture), picture("https://x.example/a.png")),
	} {
		var a, b any
		if err := json.Unmarshal(asked.Messages[i], &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &b); err != nil {
			t.Fatal(err)
		}
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			t.Errorf("message %d is %.300s, want %.300s", i, x, y)
		}
	}
	if read != 2 {
		t.Errorf("%d reads", read)
	}
}

// TestPicturesRoom: the newest pictures are given, as far as there is room; the others are a text.
func TestPicturesRoom(t *testing.T) {
	t.Parallel()
	s := &server{part: func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(make([]byte, 3000))
	}}
	web := httptest.NewServer(s)
	defer web.Close()
	var messages []json.RawMessage
	for i := range 4 {
		messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"/api/threads/s/parts/%064x"}}]}`, i)))
	}
	p := newPictures(platform{client: http.DefaultClient, base: web.URL, token: "token"}, messages)
	p.room = 10_000 // two of them as base64, and a half
	if err := p.inline(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	for i, m := range messages {
		if given, text := strings.Contains(string(m), "data:image/png;base64,"), strings.Contains(string(m), tooManyPictures); given != (i > 1) || text == given {
			t.Errorf("message %d is %.200s", i, m)
		}
	}
}
