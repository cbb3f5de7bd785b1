package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOpencodeUsesOurToolsByMCP: opencode gets this server among the MCP servers of its session, and calls its model through it,
// both with its session's token. The model uses a tool that is registered here: the call is asked for in the thread, belongs to
// the Turn under way, as the calls of the model do, and its result is what the model goes on with.
func TestOpencodeUsesOurToolsByMCP(t *testing.T) {
	type call struct {
		RunID      string `json:"run_id"`
		SessionID  string `json:"session_id"`
		ApprovalID string `json:"approval_id"`
		Args       struct{ Note string }
	}
	calls := make(chan call, 8)
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c call
		_ = json.NewDecoder(r.Body).Decode(&c) // what it lacks fails below
		calls <- c
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"filed":%q}`, c.Args.Note)
	}))
	t.Cleanup(tool.Close)
	file := filepath.Join(t.TempDir(), "tools.yaml")
	registered := fmt.Sprintf("tools:\n  - {name: office.file_note, kind: server_tool, endpoint: %q, description: Files a note., schema: {type: object, properties: {note: {type: string}}, required: [note]}}\n", tool.URL)
	if err := os.WriteFile(file, []byte(registered), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newModel(t)
	models := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(models, fmt.Appendf(nil, "upstreams:\n  - {name: scripted, url: %q, models: [model]}\n", m.url+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := newOpencode(t, m)
	o.modelAt(t, "{env:AQUEDUCT_BASE_URL}", "{env:AQUEDUCT_TOKEN}")
	s := serve(t, o, "--tools-file", file, "--outbound", "127.0.0.0/8", "--models-file", models)
	turns := map[string]bool{}
	for _, note := range []string{"first", "second"} {
		run := "run-" + note
		done := make(chan string, 1)
		go func() {
			body := fmt.Sprintf(`{"threadId":"T","runId":%q,"messages":[{"id":%q,"role":"user","content":"use file_note %s"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, run, run, note)
			resp, err := http.Post(s.url()+"/api/agui/chat", "application/json", strings.NewReader(body))
			if err != nil {
				done <- err.Error()
				return
			}
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body) // a cut stream lacks what is looked for
			done <- string(raw)
		}()
		id := s.asked(t, "office.file_note", done)
		post(t, s.url()+"/api/approvals/"+id+"/decision", `{"approved":true}`)
		var c call
		select {
		case c = <-calls:
		case <-time.After(patience):
			t.Fatal("the tool is not called")
		}
		var of struct {
			TurnID string `json:"turnId"`
		}
		get(t, s.url()+"/api/runs/"+run, &of)
		if c.Args.Note != note || c.ApprovalID != id || c.RunID != of.TurnID || turns[c.RunID] {
			t.Errorf("%+v of the Turn %s", c, of.TurnID)
		}
		turns[c.RunID] = true
		s.calledModel(t, of.TurnID)
		var messages []json.RawMessage
		for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
			get(t, s.url()+"/api/threads/T/messages", &messages)
			raw, _ := json.Marshal(messages)
			if strings.Contains(string(raw), "It answered: ") && strings.Contains(string(raw), `filed`) && strings.Contains(string(raw), note) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the model did not get the result: %s", raw)
			}
		}
		<-done
	}
}

// calledModel waits until the Turn has a call of the model and of the tool on record: those that its answer takes.
func (s *server) calledModel(t *testing.T, turn string) {
	t.Helper()
	seen := map[string]int{}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var trace struct {
			Events []struct{ Type string }
		}
		get(t, s.url()+"/v1/runs/"+turn+"/events?limit=1000", &trace)
		clear(seen)
		for _, e := range trace.Events {
			seen[e.Type]++
		}
		if seen["llm_call_done"] >= 2 && seen["tool_result"] >= 1 {
			return
		}
	}
	t.Fatalf("the Turn's trace has %v", seen)
}

// asked waits for the question about a tool.
func (s *server) asked(t *testing.T, tool string, done <-chan string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var list struct {
			Approvals []struct {
				ID   string `json:"approval_id"`
				Tool string `json:"tool_name"`
			}
		}
		get(t, s.url()+"/api/approvals?status=PENDING", &list)
		for _, a := range list.Approvals {
			if a.Tool == tool {
				return a.ID
			}
			t.Logf("asked about %q", a.Tool)
			post(t, s.url()+"/api/approvals/"+a.ID+"/decision", `{"approved":true}`) // opencode's own question about the use of a tool
		}
	}
	select {
	case got := <-done:
		t.Fatalf("no question about %s; the stream:\n%s", tool, got)
	default:
		t.Fatalf("no question about %s", tool)
	}
	return ""
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", url, resp.StatusCode, err)
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", url, resp.StatusCode, raw)
	}
}
