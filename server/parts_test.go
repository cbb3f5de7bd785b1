package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/server"
	"aqueduct/store"
)

// picture is bytes that nothing compresses, the same for the same number.
func picture(n, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func pictureMessage(id string, data []byte) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"data","value":%q,"mimeType":"image/png"}}]}`,
		id, base64.StdEncoding.EncodeToString(data))
}

// talk is an official client's: it sends all it has with each message.
type talk struct {
	h        *house
	thread   string
	messages []string
	runs     int
}

// say adds a message and reads the answer.
func (c *talk) say(message string) []frame {
	c.h.t.Helper()
	c.messages = append(c.messages, message)
	c.runs++
	return c.h.open(c.h.request("POST", "/api/agui/chat", c.body())).rest()
}

func (c *talk) body() string {
	return fmt.Sprintf(`{"threadId":%q,"runId":"R%d","protocolVersion":"1.0","messages":[%s],"state":{}}`, c.thread, c.runs, strings.Join(c.messages, ","))
}

// snapshotOf is the messages of a join, and the history_cut beside them.
func (h *house) snapshotOf(thread string) (messages []agui.Message, cut map[string]any) {
	h.t.Helper()
	for _, f := range h.open(h.request("POST", "/api/agui/connect", fmt.Sprintf(`{"threadId":%q,"runId":"J","protocolVersion":"1.0","messages":[]}`, thread))).rest() {
		if len(f.data) > 8<<20 {
			h.t.Errorf("a frame of %d bytes", len(f.data))
		}
		ev, err := agui.Decode([]byte(f.data))
		if err != nil {
			h.t.Fatal(err)
		}
		switch e := ev.(type) {
		case *agui.MessagesSnapshot:
			messages = e.Messages
		case *agui.Custom:
			if e.Name == bridge.HistoryCut {
				if err := json.Unmarshal(e.Value, &cut); err != nil {
					h.t.Fatal(err)
				}
			}
		}
	}
	return messages, cut
}

// TestPictures: pictures of 1.5 MiB in one thread, together past the limit of what is new, each message with all before it.
// Clients get URLs, the agent the bytes. With ten, and official clients: test/judges.
func TestPictures(t *testing.T) {
	t.Parallel()
	h := newHouse(t, saysN(1))
	c := &talk{h: h, thread: "T"}
	const size, count = 3 << 19, 5
	for n := range count {
		c.say(pictureMessage(fmt.Sprintf("u%d", n), picture(n, size)))
	}
	last := h.agent.last()
	var sent int
	for _, m := range last.Messages {
		for _, p := range m.Content.Parts {
			if data, ok := p.Data(); ok && bytes.Equal(data, picture(sent, size)) {
				sent++
			}
		}
	}
	if sent != count || len(last.Prompt) == 0 || last.Prompt[len(last.Prompt)-1].Content.Parts[1].Source.Type != agui.SourceData {
		t.Errorf("the agent got %d pictures, and %d messages as its prompt", sent, len(last.Prompt))
	}
	// The same body again is the same Run, though parts of it are not held.
	again := h.open(h.request("POST", "/api/agui/chat", c.body())).rest()
	if got := h.open(h.request("GET", "/api/runs/R5/events", "", "Accept", "text/event-stream")).rest(); chained([32]byte{}, got) != chained([32]byte{}, again) {
		t.Error("the body that was sent again is another Run")
	}
	isProblem(t, h.do("POST", "/api/agui/chat", strings.Replace(c.body(), `"see"`, `"saw"`, 1)), 409)

	messages, cut := h.snapshotOf("T")
	if len(messages) != count+1 || cut != nil { // the scripted agent names all its answers alike
		t.Fatalf("%d messages, cut: %v", len(messages), cut)
	}
	source := messages[0].Content.Parts[1].Source
	if source.Type != agui.SourceURL || !strings.HasPrefix(source.Value, "/api/threads/") || source.MimeType != "image/png" {
		t.Fatalf("%+v", source)
	}
	got := h.do("GET", source.Value, "")
	if got.body != string(picture(0, size)) || got.header.Get("Content-Type") != "image/png" || got.header.Get("Content-Disposition") != "inline" {
		t.Errorf("%d bytes, %v", len(got.body), got.header)
	}
	// A client that comes back sends the URLs it was given. A new message may name one as well: the agent gets the bytes.
	c.messages = c.messages[:0]
	for _, m := range messages {
		c.messages = append(c.messages, string(m.AppendJSON(nil)))
	}
	named := `[{"type":"image","source":{"type":"url","value":"http://page.example%s","mimeType":"image/png"}}]`
	c.say(fmt.Sprintf(`{"id":"edit","role":"user","content":`+named+`}`, source.Value))
	if p := h.agent.last().Prompt; len(p) != 1 || p[0].ID != "edit" || p[0].Content.Parts[0].Source.Value != base64.StdEncoding.EncodeToString(picture(0, size)) {
		t.Error("the agent did not get the bytes of a part that was named")
	}
	if messages, _ := h.snapshotOf("T"); len(messages) != count+2 || messages[count+1].Content.Parts[0].Source.Value != source.Value {
		t.Errorf("%d messages; a message that names a part is not as the others are", len(messages))
	}
	other := &talk{h: h, thread: "copy"}
	other.say(fmt.Sprintf(`{"id":"c1","role":"user","content":`+named+`}`, source.Value))
	if p := h.agent.last().Prompt; p[0].Content.Parts[0].Source.Type != agui.SourceData {
		t.Error("a part of another thread of the user's is not carried over")
	}
	if h.do("DELETE", "/api/threads/T", "").status != 204 {
		t.Error("not deleted")
	}
	isProblem(t, h.do("GET", source.Value, ""), 404)
	if messages, _ := h.snapshotOf("copy"); h.do("GET", messages[0].Content.Parts[0].Source.Value, "").status != 200 {
		t.Error("a part that was carried over went with the thread it came from")
	}
}

// TestPartIsServed so that it never runs as a page of ours, and is fetched once.
func TestPartIsServed(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, saysN(1), plan{public: "https://chat.example/"})
	data := picture(1, 100<<10)
	for mime, want := range map[string][2]string{
		"image/png": {"image/png", "inline"}, "image/svg+xml": {"image/svg+xml", "attachment"}, "text/html": {"text/html; charset=utf-8", "attachment"},
		"application/pdf": {"application/pdf", "attachment"}, "text/plain": {"text/plain; charset=utf-8", "inline"},
		"": {"application/octet-stream", "attachment"}, "x\r\ny: z": {"application/octet-stream", "attachment"}, "multipart/mixed; boundary=a": {"application/octet-stream", "attachment"},
	} {
		thread := fmt.Sprintf("T%x", sha256.Sum256([]byte(mime)))[:10]
		quoted, _ := json.Marshal(mime)
		c := &talk{h: h, thread: thread}
		c.say(strings.Replace(pictureMessage("u", data), `"image/png"`, string(quoted), 1))
		messages, _ := h.snapshotOf(thread)
		path, ours := strings.CutPrefix(messages[0].Content.Parts[1].Source.Value, "https://chat.example")
		if !ours {
			t.Errorf("%s: not at the address that people reach us at: %s", mime, path)
		}
		got := h.do("GET", path, "")
		policy := got.header.Get("Content-Security-Policy")
		if got.header.Get("Content-Type") != want[0] || got.header.Get("Content-Disposition") != want[1] || got.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(policy, "sandbox") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(got.header.Get("Cache-Control"), "private") {
			t.Errorf("%q: %v", mime, got.header)
		}
		if part := h.do("GET", path, "", "Range", "bytes=10-19"); part.status != 206 || part.body != string(data[10:20]) {
			t.Errorf("a range: %d %d", part.status, len(part.body))
		}
		if same := h.do("GET", path, "", "If-None-Match", got.header.Get("ETag")); same.status != 304 || same.body != "" {
			t.Errorf("with its ETag: %d", same.status)
		}
		isProblem(t, h.do("GET", strings.Replace(path, "/parts/", "/parts/0", 1), ""), 404)
	}
}

// TestJoinOfALargeThread: one frame never holds more than clients can read, and what is left out is told and can be read.
func TestJoinOfALargeThread(t *testing.T) {
	t.Parallel()
	h := newHouse(t, saysN(1))
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	// As an earlier version kept it: 10 pictures inside their messages, and 5 MiB of text.
	var bodies []string
	for n := range 10 {
		bodies = append(bodies, pictureMessage(fmt.Sprintf("p%02d", n), picture(n, 1<<20)), fmt.Sprintf(`{"id":"t%02d","role":"assistant","content":%q}`, n, strings.Repeat("word ", 100<<10)))
	}
	bodies = append(bodies, fmt.Sprintf(`{"id":"long","role":"assistant","content":%q}`, strings.Repeat("ä", 3<<20)))
	h.insert(s.ID, bodies...)

	messages, cut := h.snapshotOf("T")
	ids, _ := cut["cut"].([]any)
	if len(messages) < 10 || messages[len(messages)-1].ID != "long" || !strings.Contains(messages[len(messages)-1].Content.Text, "[cut: ") || len(ids) != 1 || ids[0] != "long" {
		t.Fatalf("%d messages, cut: %v", len(messages), cut)
	}
	var all []agui.Message
	path := cut["url"].(string)
	for pages := 0; path != "" && pages < 50; pages++ {
		got := h.do("GET", path, "")
		if len(got.body) > 5<<20 {
			t.Errorf("a page of %d bytes", len(got.body))
		}
		var page []agui.Message
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatal(err)
		}
		all = append(page, all...)
		path, _, _ = strings.Cut(strings.TrimPrefix(got.header.Get("Link"), "<"), ">")
	}
	if all = append(all, messages...); len(all) != 2+21 || all[0].Role != "user" {
		t.Errorf("%d messages in all pages and the snapshot", len(all))
	}
	for _, m := range all {
		for i := range m.Content.Parts {
			if m.Content.Parts[i].DataSize() > bridge.InlinePart {
				t.Errorf("%s holds its picture", m.ID)
			}
		}
	}
	if whole := h.do("GET", "/api/threads/T/messages?format=agui&limit=1", ""); len(whole.body) < 6<<20 {
		t.Errorf("a message that a snapshot cuts can be read whole nowhere: %d bytes", len(whole.body))
	}
	h.chat("T", "R2", "more")
	var pictures int
	for _, m := range h.agent.last().Messages {
		for _, p := range m.Content.Parts {
			if _, ok := p.Data(); ok {
				pictures++
			}
		}
	}
	if pictures != 10 {
		t.Errorf("the agent got %d of 10 pictures", pictures)
	}
}

// insert keeps messages in a transcript as they are.
func (h *house) insert(sessionID string, bodies ...string) {
	h.t.Helper()
	err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
		for _, body := range bodies {
			var m agui.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				return err
			}
			row := store.Message{ID: uuid.Must(uuid.NewV7()).String(), SessionID: sessionID, ExternalID: m.ID, Role: m.Role, Output: m.Role != "user", Data: []byte(body), CreatedAt: time.Now()}
			if err := tx.InsertMessage(h.t.Context(), row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestSnapshotKeepsCallsWithResults: the page before gets the results whose calls it has.
func TestSnapshotKeepsCallsWithResults(t *testing.T) {
	t.Parallel()
	h := newHouse(t, saysN(1))
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 900<<10)
	bodies := []string{fmt.Sprintf(`{"id":"a","role":"assistant","content":%q,"toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, filler),
		`{"id":"r","role":"tool","toolCallId":"c","content":"7"}`}
	for n := range 4 {
		bodies = append(bodies, fmt.Sprintf(`{"id":"f%d","role":"user","content":%q}`, n, filler))
	}
	h.insert(s.ID, bodies...)
	messages, cut := h.snapshotOf("T")
	if len(messages) != 4 || messages[0].ID != "f0" || cut["before"] == nil {
		t.Errorf("%d messages, the first %s, %v", len(messages), messages[0].ID, cut)
	}
}

// TestResendMemory: a body of 40 MiB that is known costs no more memory than what is new in it may.
func TestResendMemory(t *testing.T) {
	h := newHouse(t, saysN(1))
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	var small, large []string
	for n := range 10 {
		known := fmt.Sprintf(`{"id":"k%d","role":"user","content":"x"}`, n)
		h.insert(s.ID, known)
		small = append(small, known)
		large = append(large, pictureMessage(fmt.Sprintf("k%d", n), picture(n, 3<<19)))
	}
	for name, order := range map[string]string{
		"thread first": `{"threadId":"T","runId":"%[1]s","protocolVersion":"1.0","messages":[%[2]s]}`,
		"thread last":  `{"runId":"%[1]s","protocolVersion":"1.0","messages":[%[2]s],"threadId":"T"}`,
	} {
		resend := func(run string, messages []string) (peak uint64, size int) {
			fresh := pictureMessage("new-"+run, picture(99, 1<<20))
			body := fmt.Sprintf(order, run, strings.Join(append(messages[:len(messages):len(messages)], fresh), ","))
			req := h.request("POST", "/api/agui/chat", body)
			peak = memoryPeak(func() { h.open(req).rest() })
			return peak, len(body)
		}
		run := strings.Fields(name)[1]
		ofSmall, sizeSmall := resend("small-"+run, small)
		ofLarge, sizeLarge := resend("large-"+run, large)
		t.Logf("%s: %d KiB for a body of %d KiB, %d KiB for one of %d KiB: %.1f times", name, ofSmall>>10, sizeSmall>>10, ofLarge>>10, sizeLarge>>10, float64(ofLarge)/float64(ofSmall))
		if ofLarge > ofSmall+16<<20 {
			t.Errorf("%s: a body of %d bytes took %d bytes of memory, one of %d bytes %d", name, sizeLarge, ofLarge, sizeSmall, ofSmall)
		}
	}
}

// memoryPeak is about the most that was allocated at a time while fn ran. The test's own connection is in it on both sides.
func memoryPeak(fn func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var now runtime.MemStats
		for ctx.Err() == nil {
			runtime.GC() // what is garbage is no need of the request's
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapAlloc))
		}
	}()
	fn()
	stop()
	<-done
	return peak.Load() - min(peak.Load(), before.HeapAlloc)
}

// TestSlowLargeBody: what is larger than a body may come slowly, but not as slowly as it likes.
func TestSlowLargeBody(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, saysN(1), plan{limits: server.Limits{BodyTime: 50 * time.Millisecond}})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, `{"messages":[`)
		// and then nothing more: the client waits for the server to give up
	}()
	defer pw.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/api/agui/chat", pr)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return // the connection was cut: as good an answer
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%s", resp.Status)
	}
}
