package proxies_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// stream is one response, read line by line as it comes.
type stream struct {
	t     *testing.T
	resp  *http.Response
	body  io.Reader
	lines *bufio.Reader
	last  int // the newest id
}

// chat posts a prompt through the site.
func (s *site) chat(t *testing.T, prompt string) *stream {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"protocolVersion": "1.0", "threadId": "T" + strconv.Itoa(len(prompt)) + prompt[:min(len(prompt), 60)], "runId": "", "messages": []any{
			map[string]any{"id": "u1", "role": "user", "content": prompt},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.stream(t, http.MethodPost, "/api/agui/chat", string(body))
}

func (s *site) stream(t *testing.T, method, path, body string, header ...string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	out := &stream{t: t, resp: resp, body: resp.Body}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if out.body, err = gzip.NewReader(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	out.lines = bufio.NewReader(out.body)
	return out
}

// until reads up to the line that begins with a comment's colon or holds these words.
func (s *stream) until(words string) {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.last, _ = strconv.Atoi(strings.TrimSpace(id))
		}
		if words == ":" && strings.HasPrefix(line, ":") || words != ":" && strings.Contains(line, words) {
			return
		}
		if err != nil {
			s.t.Fatalf("the stream ended before %q: %v", words, err)
		}
	}
}

// rest is everything up to the end of the stream, however it ends.
func (s *stream) rest() string {
	text, _ := io.ReadAll(s.lines)
	return string(text)
}

// resumes reads the same Run again from its second event on.
func (s *site) resumes(t *testing.T, of *stream) {
	t.Helper()
	run := of.resp.Header.Get("X-Run-Id")
	again := s.stream(t, http.MethodGet, "/api/runs/"+run+"/events", "", "Last-Event-ID", "1")
	again.until("id: 2")
	again.until(`"type":"RUN_FINISHED"`)
	if again.last != of.last {
		t.Errorf("ends with event %d, before with %d", again.last, of.last)
	}
}
