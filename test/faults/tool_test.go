package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// till is a tool that takes money: how often it was called counts. It may be held.
type till struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int // by ToolCall
	came  chan string    // each call, as it comes
	hold  chan struct{}  // nil: answers at once
}

func newTill(t testing.TB) *till {
	k := &till{calls: make(map[string]int), came: make(chan string, 1000)}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ToolCallID string `json:"tool_call_id"`
		}
		if json.NewDecoder(r.Body).Decode(&call) != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		k.mu.Lock()
		k.calls[call.ToolCallID]++
		hold := k.hold
		k.mu.Unlock()
		k.came <- call.ToolCallID
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"paid":true}`))
	}))
	t.Cleanup(func() {
		k.held(false)
		k.CloseClientConnections()
		k.Close()
	})
	return k
}

// held has calls wait, or lets them go.
func (k *till) held(yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case yes && k.hold == nil:
		k.hold = make(chan struct{})
	case !yes && k.hold != nil:
		close(k.hold)
		k.hold = nil
	}
}

func (k *till) called(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[id]
}

// payer is an agent whose Turns leave the calling of tools to the test.
type payer struct {
	*httptest.Server
	turns     chan credentials
	leave     chan struct{} // lets one Turn end
	resumable bool          // it sends x-aqueduct-resumable
}

// credentials are the Turn and the token that a call brings. resume has the answers of a call after an earlier one.
type credentials struct {
	turn, token string
	resume      []resumed
}

type resumed struct {
	ID, Status string
	Key        string `json:"idempotency_key"`
}

func newPayer(t testing.TB) *payer {
	p := &payer{turns: make(chan credentials, 10), leave: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Resume []resumed }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if p.resumable {
			w.Header().Set("x-aqueduct-resumable", "true")
		}
		f := &frames{w: w, r: r}
		f.send("delta", `{"text":"paying "}`)
		p.turns <- credentials{r.Header.Get("x-run-id"), r.Header.Get("x-aqueduct-run-token"), body.Resume}
		select {
		case <-p.leave:
			f.send("delta", `{"text":"done"}`)
			f.send("done", `{}`)
		case <-r.Context().Done():
		}
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// toolEnv is a serverEnv with a till in it, whose use has to be approved.
type toolEnv struct {
	*serverEnv
	till  *till
	payer *payer
	env   []string
}

func newToolEnv(t testing.TB, database, policy string) *toolEnv {
	s := &toolEnv{till: newTill(t), payer: newPayer(t)}
	file := filepath.Join(t.TempDir(), "tools.yaml")
	text := fmt.Sprintf("tools:\n- {name: pay, kind: server_tool, endpoint: %q, policy: %s}\n", s.till.URL, policy)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"AQUEDUCT_TOOLS_FILE=" + file, "AQUEDUCT_OUTBOUND=127.0.0.0/8"}
	s.serverEnv = &serverEnv{t: t, database: database, agent: &agent{Server: s.payer.Server}}
	return s
}

const asksFirst, asksNobody = `{risk: high, verdict: require_approval}`, `{risk: low}`

// toolCall is a ToolCall as its agent sees it, or why it does not.
type toolCall struct {
	HTTP       int    `json:"-"`
	Status     any    // a number, of a problem
	ToolCallID string `json:"tool_call_id"`
	State      string
	Code       string
	Result     json.RawMessage
	Error      struct{ Code, Message string }
	err        error
}

// ask calls the tool proxy as an agent does.
func (s *server) ask(token, path, body string) toolCall {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := s.do(ctx, "POST", path, []byte(body), "Authorization", "Bearer "+token)
	if err != nil {
		return toolCall{err: err}
	}
	defer resp.Body.Close()
	out := toolCall{HTTP: resp.StatusCode}
	out.err = json.NewDecoder(resp.Body).Decode(&out)
	return out
}

func (s *server) pay(c credentials) toolCall {
	return s.ask(c.token, "/v1/tools/pay:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"sum":7},"idempotency_key":"once"}`, c.turn))
}

func (s *server) waitFor(c credentials, id string, most time.Duration) toolCall {
	return s.ask(c.token, fmt.Sprintf("/v1/tool_calls/%s:wait?timeout_ms=%d", id, most.Milliseconds()), "{}")
}

// outcome waits for a call as an agent does that wants its result: as often as an answer says that it is pending.
func (s *server) outcome(c credentials, id string) toolCall {
	for {
		if call := s.waitFor(c, id, 20*time.Second); call.Status != "pending" {
			return call
		}
	}
}

// begin prompts the agent and returns the credentials it calls the server with. The chat's
// stream is left, not read to its end.
func (s *toolEnv) begin(on *server, thread string) credentials {
	s.t.Helper()
	in, err := on.chat(thread, thread+"-r", "pay")
	if err != nil {
		s.t.Fatal(err)
	}
	in.close()
	select {
	case c := <-s.payer.turns:
		return c
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the agent is not called\n%s", on.log())
		panic("unreachable")
	}
}

// asked is the one open Question of a tool, as soon as there is one.
func (s *server) asked(kind string) approval {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var list struct{ Approvals []approval }
		if _, err := s.get("/api/approvals?status=PENDING&kind="+kind, &list); err != nil {
			s.t.Fatal(err)
		}
		if len(list.Approvals) == 1 {
			return list.Approvals[0]
		}
		if time.Now().After(end) {
			s.t.Fatalf("%d questions are open\n%s", len(list.Approvals), s.log())
		}
	}
}

type approval struct {
	ID       string `json:"approval_id"`
	Status   string
	ToolName string `json:"tool_name"`
	Title    string
	Args     struct {
		ToolCallID string `json:"tool_call_id"`
	}
}

// answer settles a Question with a body of its own.
func (s *server) answer(id, body string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := s.do(ctx, "POST", "/api/approvals/"+id+"/decision", []byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// ended is how a ToolCall ended by its trace, as soon as the trace has it.
func (s *server) ended(turn, id string) string {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		all := s.records(turn, id, "tool_result")
		if len(all) > 0 {
			return strings.Join(all, ",")
		}
		if time.Now().After(end) {
			s.t.Fatalf("the tool call %s does not end\n%s", id, s.log())
		}
	}
}

// records are the statuses of a ToolCall's records of one type.
func (s *server) records(turn, id, kind string) (statuses []string) {
	s.t.Helper()
	var trace struct {
		Events []struct {
			Type    string
			Payload struct {
				ToolCallID string `json:"tool_call_id"`
				Status     string
			}
		}
	}
	if _, err := s.get("/v1/runs/"+turn+"/events?limit=1000", &trace); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range trace.Events {
		if e.Type == kind && e.Payload.ToolCallID == id {
			statuses = append(statuses, e.Payload.Status)
		}
	}
	return statuses
}

// TestToolKilledBeforeDispatch: the server dies after a person approved a call and before it
// is dispatched. The agent that asked was on a stream of that server, and so is gone: the call is not run, and no person is
// asked again.
func TestToolKilledBeforeDispatch(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		s := newToolEnv(t, database, asksFirst)
		s.start(fused, append(s.env, "AQUEDUCT_FAILPOINT=before_tool_dispatch:1")...)
		c := s.begin(s.server, "T")
		pending := s.pay(c)
		if pending.Status != "pending" {
			t.Fatalf("%+v", pending)
		}
		_, _, _ = s.decide(pending.ToolCallID, "approve") // the server dies of it
		s.gone(20 * time.Second)
		if n := s.till.called(pending.ToolCallID); n != 0 {
			t.Fatalf("it ran %d times before the server died", n)
		}
		s.start(fused, s.env...)
		if got := s.ended(c.turn, pending.ToolCallID); got != "FAILED" {
			t.Errorf("it ended %s", got)
		}
		s.kill()
		s.start(fused, s.env...) // a further start finds nothing to do
		s.settled(t, "T")
		if n := s.till.called(pending.ToolCallID); n != 0 {
			t.Errorf("it was dispatched %d times, for nobody", n)
		}
		var list struct{ Approvals []approval }
		if _, err := s.get("/api/approvals?status=PENDING", &list); err != nil || len(list.Approvals) != 0 {
			t.Errorf("asked again: %+v %v", list, err)
		}
		late := s.waitFor(c, pending.ToolCallID, time.Second)
		t.Logf("the agent, whose stream was lost, hears HTTP %d %s", late.HTTP, late.Code)
	})
}

// TestToolKilledBeforeResult: the server dies while a tool runs, at three moments. The call
// is UNKNOWN, a person is asked, and it never runs again by itself; each of the three answers
// does what its prompt asks.
func TestToolKilledBeforeResult(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		for i, c := range []struct {
			policy, point string
			before        int // calls that reached the tool before the server died
			answer        string
			end           string
			after         int // further calls
		}{
			{asksFirst, "before_tool_result", 1, `{"payload":{"outcome":"succeeded","result":{"seen":"in the books"}}}`, "SUCCEEDED", 0},
			{asksNobody, "before_tool_result", 1, `{"payload":{"outcome":"run_again"}}`, "SUCCEEDED", 1},
			{asksFirst, "after_tool_dispatch", 0, `{"payload":{"outcome":"run_again"}}`, "SUCCEEDED", 1},
			{asksNobody, "after_tool_dispatch", 0, `{"payload":{"outcome":"failed","message":"Not in the books."}}`, "FAILED", 0},
			{asksFirst, "before_tool_result", 1, `{"decision":"reject"}`, "FAILED", 0},
		} {
			s := newToolEnv(t, database, c.policy)
			s.start(fused, append(s.env, "AQUEDUCT_FAILPOINT="+c.point+":1")...)
			cred := s.begin(s.server, fmt.Sprint("T", i))
			call := s.pay(cred)
			id := call.ToolCallID
			if c.policy == asksFirst {
				_, _, _ = s.decide(id, "approve")
			}
			s.gone(20 * time.Second)
			s.start(fused, s.env...)
			q := s.asked("input")
			if id == "" {
				id = q.Args.ToolCallID
			}
			if q.Args.ToolCallID != id || q.ToolName != "pay" || !strings.Contains(q.Title, "pay") {
				t.Fatalf("%d: asked %+v about %s", i, q, id)
			}
			s.settled(t, fmt.Sprint("T", i))
			for _, unclear := range []string{`{"payload":"yes"}`, `{"payload":{}}`, `{"payload":{"outcome":"maybe"}}`, `{"decision":"approve"}`} {
				if status := s.answer(q.ID, unclear); status != http.StatusUnprocessableEntity {
					t.Errorf("%d: %s is HTTP %d", i, unclear, status)
				}
			}
			s.kill() // once more: it is asked once, and still is
			s.start(fused, s.env...)
			if again := s.asked("input"); again.ID != q.ID {
				t.Errorf("%d: asked anew, as %s", i, again.ID)
			}
			if n := s.till.called(id); n != c.before {
				t.Fatalf("%d: it was called %d times, %d expected: a blind repeat", i, n, c.before)
			}
			if status := s.answer(q.ID, c.answer); status != http.StatusOK {
				t.Fatalf("%d: the answer is HTTP %d", i, status)
			}
			if got := s.ended(cred.turn, id); got != c.end {
				t.Errorf("%d: it ended %s", i, got)
			}
			if n := s.till.called(id); n != c.before+c.after {
				t.Errorf("%d: it was called %d times", i, n)
			}
			if status := s.answer(q.ID, c.answer); status != http.StatusOK {
				t.Errorf("%d: the same answer again is HTTP %d", i, status)
			}
			late := s.waitFor(cred, id, time.Second)
			t.Logf("%d: the agent, whose stream was lost, hears HTTP %d %s", i, late.HTTP, late.Code)
			s.kill()
		}
	})
}
