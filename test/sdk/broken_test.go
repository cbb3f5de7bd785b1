package sdk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// flaky stands in for an Aqueduct that is away now and then: it refuses the first request of each call, breaks off the answer
// to the second, and goes on with the third.
type flaky struct {
	url  string
	mu   sync.Mutex
	got  []string // path and Last-Event-ID of each request
	keys []string
}

func openFlaky(t *testing.T) *flaky {
	t.Helper()
	f := &flaky{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Key string `json:"idempotency_key"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	f.got = append(f.got, r.URL.Path+" "+r.Header.Get("Last-Event-ID"))
	f.keys = append(f.keys, body.Key)
	n := len(f.got)
	f.mu.Unlock()
	write := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	switch {
	case n == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(r.URL.Path, "/v1/agents/") && n == 2:
		write("id: 1\nevent: state\ndata: {\"run_id\":\"r2\",\"state\":\"RUNNING\"}\n\n: alive\n\nid: 2\nevent: delta\ndata: {\"run_id\":\"r2\",\"text\":\"one \"}\n\nid: 3\nevent: del")
		panic(http.ErrAbortHandler)
	case strings.HasPrefix(r.URL.Path, "/v1/agents/"):
		write("id: 3\nevent: delta\ndata: {\"run_id\":\"r2\",\"text\":\"two\"}\n\nid: 4\nevent: done\ndata: {\"run_id\":\"r2\",\"usage\":{}}\n\n")
	case strings.HasSuffix(r.URL.Path, ":invoke") && n == 2:
		write(`{"status":"pen`)
		panic(http.ErrAbortHandler)
	case strings.HasSuffix(r.URL.Path, ":invoke"):
		write(`{"status":"pending","tool_call_id":"c1"}`)
	case n == 4: // a :wait that does not wait
		write(`{"status":"pending"}`)
	default:
		write(`{"status":"succeeded","result":{"receipt":"r-9"}}`)
	}
}

// TestBrokenConnections: calls that are refused and broken off are made again, as the same call, and end as if nothing had been.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for id, a := range agents(t) {
		const invoke, wait = "/v1/tools/payments.transfer:invoke ", "/v1/tool_calls/c1:wait "
		for _, c := range []struct {
			prompt, text string
			got          []string
			keyed        int
		}{
			{"ask other hello", "other: one two", []string{"/v1/agents/other:invoke ", "/v1/agents/other:invoke ", "/v1/agents/other:invoke 2"}, 3},
			{"transfer 10 to ada", "I will transfer 10 to ada. Done, receipt r-9.", []string{invoke, invoke, invoke, wait, wait}, 3},
		} {
			f := openFlaky(t)
			if text := answerOf(t, a.url, f.url, c.prompt); text != c.text {
				t.Errorf("%s, %s: %q", id, c.prompt, text)
			}
			if !slices.Equal(f.got, c.got) {
				t.Errorf("%s, %s: %q", id, c.prompt, f.got)
			}
			if keys := slices.Compact(f.keys[:c.keyed]); len(keys) != 1 || keys[0] == "" {
				t.Errorf("%s, %s: the keys are %q", id, c.prompt, keys)
			}
		}
	}
}

// answerOf calls an agent as Aqueduct does, and gives the text of its answer, which has to end well.
func answerOf(t *testing.T, url, base, prompt string) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"run_id": "r1", "input_message": map[string]string{"role": "user", "content": prompt}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/invoke", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Aqueduct-Base-Url": base, "X-Aqueduct-Run-Token": "token"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), "event: done\n") {
		t.Errorf("the answer did not end well: %v\n%s", err, raw)
	}
	var text strings.Builder
	for line := range strings.Lines(string(raw)) {
		var delta struct{ Text string }
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &delta) == nil {
			text.WriteString(delta.Text)
		}
	}
	return text.String()
}
