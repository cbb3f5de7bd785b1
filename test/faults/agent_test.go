package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent is an HTTP agent that does what its prompt asks and counts how often each
// dispatch reaches it.
type agent struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int // by Turn, and what was answered
	order []string       // of Turns, as they came
	left  map[string]time.Time
}

func newAgent(t testing.TB) *agent {
	a := &agent{calls: make(map[string]int), left: make(map[string]time.Time)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", a.invoke)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// invocation is as much of a call as the agent reads.
type invocation struct {
	RunID string `json:"run_id"`
	Input struct {
		Content string `json:"content"`
	} `json:"input_message"`
	Resume []struct {
		ID, Status string
		Payload    struct{ Approved bool }
	} `json:"resume"`
}

func (a *agent) invoke(w http.ResponseWriter, r *http.Request) {
	var c invocation
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := c.RunID
	for _, answer := range c.Resume {
		key += " " + answer.ID
	}
	a.mu.Lock()
	a.calls[key]++
	a.order = append(a.order, c.RunID)
	a.mu.Unlock()
	out := &frames{w: w, r: r}
	out.follow(c)
	if r.Context().Err() != nil {
		a.mu.Lock()
		a.left[c.RunID] = time.Now()
		a.mu.Unlock()
	}
}

// called is how often the agent was called for a Turn, and for an answer to it.
func (a *agent) called(turn string) (starts, resumes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, n := range a.calls {
		if key == turn {
			starts += n
		} else if strings.HasPrefix(key, turn+" ") {
			resumes += n
		}
	}
	return starts, resumes
}

// most is the most often any dispatch reached the agent.
func (a *agent) most() (most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.calls {
		most = max(most, n)
	}
	return most
}

// leftBy tells whether, and when, the caller closed the connection of a Turn.
func (a *agent) leftBy(turn string) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.left[turn]
	return at, ok
}

// frames is a response being streamed.
type frames struct {
	w http.ResponseWriter
	r *http.Request
}

func (f *frames) raw(s string) bool {
	if _, err := io.WriteString(f.w, s); err != nil {
		return false
	}
	return http.NewResponseController(f.w).Flush() == nil
}

func (f *frames) send(name, data string) bool {
	return f.raw("event: " + name + "\ndata: " + data + "\n\n")
}

// wait pauses as an agent that thinks does.
func (f *frames) wait(d time.Duration) bool {
	if d == 0 {
		return f.r.Context().Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-f.r.Context().Done():
		return false
	}
}

// numbers sends the numbers from one to another.
func (f *frames) numbers(from, to int, pace time.Duration) {
	for i := from; i <= to; i++ {
		if !f.send("delta", fmt.Sprintf(`{"text":"%d "}`, i)) || !f.wait(pace) {
			return
		}
	}
}

// calls calls the server for a Turn as our SDKs do: again, with the same key, until it has the outcome. It reports
// whether that was a success.
func (f *frames) calls(what, turn string) bool {
	in := &server{url: f.r.Header.Get("x-aqueduct-base-url")}
	path, body, good := "/v1/tools/look:invoke", `{"run_id":%q,"args":{"sum":1},"idempotency_key":"once"}`, `"status":"succeeded"`
	if what == "call" {
		path, body, good = "/v1/agents/other:invoke", `{"run_id":%q,"input_message":{"role":"user","content":"count 20 5ms"},"idempotency_key":"once"}`, "event: done"
	}
	for f.r.Context().Err() == nil {
		resp, err := in.do(f.r.Context(), "POST", path, fmt.Appendf(nil, body, turn), "Authorization", "Bearer "+f.r.Header.Get("x-aqueduct-run-token"))
		if err == nil {
			answer, _ := io.ReadAll(resp.Body) // one that broke off is no success
			_ = resp.Body.Close()
			if strings.Contains(string(answer), good) {
				return true
			}
			if resp.StatusCode == http.StatusOK && strings.Contains(string(answer), `"status":"failed"`) || resp.StatusCode/100 == 4 {
				f.send("error", fmt.Sprintf(`{"code":"call_failed","message":%q}`, answer))
				return false
			}
		}
		f.wait(50 * time.Millisecond)
	}
	return false
}

// count sends the numbers from 1 to n, so that a missing or doubled one shows.
func (f *frames) count(n int, pace time.Duration, pad string) {
	for i := 1; i <= n; i++ {
		if !f.send("delta", fmt.Sprintf(`{"text":"%d%s "}`, i, pad)) || !f.wait(pace) {
			return
		}
	}
}

// follow does what the prompt asks: a word, a number and a pace.
func (f *frames) follow(c invocation) {
	var (
		part string
		n    int
		pace time.Duration
	)
	for i, word := range strings.Fields(c.Input.Content) {
		switch i {
		case 0:
			part = word
		case 1:
			_, _ = fmt.Sscan(word, &n)
		case 2:
			pace, _ = time.ParseDuration(word)
		}
	}
	if part == "status500" {
		http.Error(f.w, "internal words that no client may see", http.StatusInternalServerError)
		return
	}
	if part == "headless" {
		f.wait(time.Hour)
		return
	}
	if part == "page" {
		f.w.Header().Set("Content-Type", "text/html")
		f.raw("<html>")
		return
	}
	f.w.Header().Set("Content-Type", "text/event-stream")
	switch part {
	case "count":
		f.count(n, pace, "")
	case "bulk": // 8 KiB a piece
		f.count(n, pace, strings.Repeat("x", 8<<10))
	case "ask":
		f.count(n, pace, "")
		if len(c.Resume) == 0 {
			f.send("ask", `{"id":"q","kind":"permission","tool":"shell","title":"Go on?","args":{},"options":[`+
				`{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]}`)
			f.send("done", `{"pending":["q"]}`)
			return
		}
	case "schema": // asks for input that fits the schema in the prompt
		if len(c.Resume) == 0 {
			_, schema, _ := strings.Cut(c.Input.Content, " ")
			f.send("ask", `{"id":"q","kind":"input","title":"Which?","args":{},"response_schema":`+schema+`}`)
			f.send("done", `{"pending":["q"]}`)
			return
		}
		f.count(1, 0, "")
	case "use", "call": // has a tool executed, or calls another agent, half way
		f.numbers(1, n/2, pace)
		if !f.calls(part, c.RunID) {
			return
		}
		f.numbers(n/2+1, n, pace)
	case "askon": // asks, and talks on before it ends to wait
		if len(c.Resume) > 0 {
			f.count(1, 0, "")
			break
		}
		f.send("ask", `{"id":"q","kind":"permission","tool":"shell","title":"Go on?","args":{},"options":[`+
			`{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]}`)
		f.count(n, pace, "")
		f.send("done", `{"pending":["q"]}`)
		return
	default:
		f.misbehave(part)
		return
	}
	f.send("done", `{"usage":{"total_tokens":1}}`)
}

// gibibyte writes what never ends well, until the reader has had enough.
func (f *frames) gibibyte(head, body string) {
	block := strings.Repeat(body, 1<<20/len(body))
	for ok := f.raw(head); ok; {
		for range 1 << 10 {
			if _, err := io.WriteString(f.w, block); err != nil {
				return
			}
		}
		ok = false
	}
}

func (f *frames) misbehave(part string) {
	f.send("delta", `{"text":"so far "}`)
	switch part {
	case "hang":
		f.wait(time.Hour)
	case "drip": // a byte a while, never a frame
		for f.raw("x") && f.wait(20*time.Millisecond) {
		}
	case "endless": // always another frame
		for f.send("delta", `{"text":"more "}`) && f.wait(5*time.Millisecond) {
		}
	case "cut": // ends without done
	case "half": // ends within a frame that would have been done
		f.raw("event: done\ndata: {}\n")
	case "reset":
		if conn, _, err := http.NewResponseController(f.w).Hijack(); err == nil {
			_ = conn.Close()
		}
	case "notjson":
		f.send("delta", `{"text":`)
	case "notobject":
		f.send("delta", `"text"`)
	case "binary":
		f.raw("event: delta\ndata: \x00\xff\xfe\n\n")
	case "badstate": // a warning, and no end
		f.send("state_delta", `{"delta":[{"op":"replace","path":"/no/such","value":1}]}`)
		f.send("done", `{}`)
	case "error":
		f.send("error", `{"code":"model_overloaded","message":"Try later."}`)
	case "twice": // sends more after its last word
		f.send("done", `{}`)
		f.send("delta", `{"text":"never"}`)
		f.send("error", `{"code":"never"}`)
	case "gib-line":
		f.gibibyte("event: delta\ndata: {\"text\":\"", "a")
	case "gib-lines":
		f.gibibyte("event: delta\n", "data: aaaaaaaaa\n")
	case "gib-name":
		f.gibibyte("event: ", "a")
	}
}
