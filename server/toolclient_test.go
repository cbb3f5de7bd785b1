package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// declares is a prompt of a client that has the tool "pick".
func (w *toolEnv) declares(run string) *reader {
	w.t.Helper()
	body := strings.Replace(inputBody("T", run, "go"), `"tools":[]`, `"tools":[{"name":"pick","description":"","parameters":{"type":"object"}}]`, 1)
	return w.open(w.request("POST", "/api/agui/chat", body))
}

// dispatched is the id under which the chat shows the tool.
func dispatched(frames []frame, tool string) (id string) {
	for _, f := range frames {
		if f.typ() == "TOOL_CALL_START" && f.field("toolCallName") == tool {
			id = f.field("toolCallId")
		}
	}
	return id
}

func picking(w *toolEnv, c bridge.Call) string {
	return brief(w.settled(c, w.invoke(c, "pick", `{"from":2}`)))
}

// TestToolClientTwoTabs: two tabs are given the call; the first's result counts, the other gets
// that one as the answer, and what comes later changes nothing (F19, F20).
func TestToolClientTwoTabs(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, picking)
	first := w.declares("R")
	tab := w.open(w.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
	defer tab.close()
	over := func(f frame) bool { return f.typ() == "RUN_FINISHED" }
	one := dispatched(first.rest(), "pick")
	seen, err := tab.until(over)
	if two := dispatched(seen, "pick"); err != nil || one == "" || one != two {
		t.Fatalf("the tabs see %q and %q: %v", one, two, err)
	}
	path := "/api/tool_calls/" + one + "/result"
	if got := fields(t, w.do("POST", path, `{"ok":true,"result":{"picked":1}}`)); got["won"] != true {
		t.Fatal(got)
	}
	if said := <-w.said; said != `succeeded {"picked":1}` {
		t.Error(said)
	}
	w.idle("T")
	for body, status := range map[string]int{
		`{"ok":true,"result":{"picked":2}}`: 409, `{"ok":false,"error":"no"}`: 409, `{"ok":true,"result":{"picked":1}}`: 200,
	} {
		got := w.do("POST", path, body)
		if got.status != status || !strings.Contains(got.body, `"picked":1`) {
			t.Errorf("%s, late: HTTP %d %s", body, got.status, got.body)
		}
	}
	late := w.do("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T","runId":"L","protocolVersion":"1.0","messages":[{"id":"late","role":"tool","toolCallId":%q,"content":"9"}]}`, one))
	if late.status != 200 || !strings.Contains(late.body, "question_settled") {
		t.Errorf("late, in the chat: HTTP %d %s", late.status, late.body)
	}
	call, err := w.store.ToolCall(t.Context(), store.System(), one)
	if err != nil || call.Status != store.ToolSucceeded || string(call.Result) != `{"picked":1}` {
		t.Errorf("%s %s %v", call.Status, call.Result, err)
	}
	if n := len(w.agent.prompts()); n != 1 {
		t.Errorf("the agent was called %d times", n)
	}
}

// TestToolClientOffline: no client listens, and the agent gets the error at once (F20).
func TestToolClientOffline(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		<-gone
		began := time.Now()
		got := brief(w.invoke(c, "pick", `{}`))
		if took := time.Since(began); took > time.Second {
			got += " after " + took.String()
		}
		return got
	})
	in := w.declares("R")
	if _, err := in.next(); err != nil {
		t.Fatal(err)
	}
	in.close()
	w.alone("T")
	close(gone)
	if said := <-w.said; said != "failed client_offline" {
		t.Error(said)
	}
	w.idle("T")
	if page := w.do("GET", "/metrics", "").body; !strings.Contains(page, `aqueduct_client_offline_total{cause="invoked"} 1`) {
		t.Error("it is not counted")
	}
}

// alone waits until no client listens to a thread.
func (w *toolEnv) alone(string) {
	w.t.Helper()
	for range 400 {
		if strings.Contains(w.do("GET", "/metrics", "").body, "aqueduct_open_streams 0\n") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("the stream stays open")
}

// TestToolClientApproved: a client tool that has to be approved: asked, then dispatched to the
// client as a call of its own, whose result is the agent's. Watched or not, when it is
// approved.
func TestToolClientApproved(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct{ result, want string }{
		"done":   {`{"ok":true,"result":{"moved":true}}`, `succeeded {"moved":true}`},
		"failed": {`{"ok":false,"error":"No arm."}`, "failed client_tool_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
				return brief(w.settled(c, w.invoke(c, "move", `{"to":"left"}`)))
			})
			w.register(`{"name":"move","kind":"client_tool","policy":{"risk":"high","verdict":"require_approval"}}`)
			asked := w.chat("T", "R", "go")
			id := dispatched(asked, "request_permission")
			tail := w.open(w.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
			defer tail.close()
			if got := w.decide(id, `{"decision":"approve"}`); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
			said, err := tail.until(func(f frame) bool { return f.typ() == "TOOL_CALL_END" && f.field("toolCallId") != id })
			call := dispatched(said, "move")
			if err != nil || call == "" || call == id {
				t.Fatalf("dispatched as %q: %v", call, err)
			}
			if got := w.do("POST", "/api/tool_calls/"+call+"/result", end.result); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
			if again := fields(t, w.do("POST", "/api/tool_calls/"+call+"/result", end.result)); again["repeated"] != true {
				t.Errorf("the same again: %v", again)
			}
			if got := <-w.said; got != end.want {
				t.Errorf("the agent heard %s", got)
			}
			w.idle("T")
		})
	}
}

// TestToolClientApprovedOffline: approved, and no client is there any more.
func TestToolClientApprovedOffline(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.settled(c, w.invoke(c, "move", `{}`)))
	})
	w.register(`{"name":"move","kind":"client_tool","policy":{"risk":"high","verdict":"require_approval"}}`)
	id := dispatched(w.chat("T", "R", "go"), "request_permission")
	w.alone("T")
	w.decide(id, `{"decision":"approve"}`)
	if got := <-w.said; got != "failed client_offline" {
		t.Error(got)
	}
	w.idle("T")
	if page := w.do("GET", "/metrics", "").body; !strings.Contains(page, `aqueduct_client_offline_total{cause="approved"} 1`) {
		t.Error("it is not counted")
	}
}

// TestToolClientTimeout: a client that gives no result in time, asked at once or after an
// approval; a result that comes then is refused and changes nothing.
func TestToolClientTimeout(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"at once": `{"risk":"low"}`, "approved": `{"risk":"high","verdict":"require_approval"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
				return brief(w.settled(c, w.invoke(c, "move", `{}`)))
			})
			w.register(`{"name":"move","kind":"client_tool","timeout_ms":300,"policy":` + policy + `}`)
			in := w.open(w.prompt("T", "R", "go"))
			if _, err := in.next(); err != nil {
				t.Fatal(err)
			}
			tail := w.open(w.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
			defer tail.close()
			asked := in.rest()
			if id := dispatched(asked, "request_permission"); id != "" {
				w.decide(id, `{"decision":"approve"}`)
			}
			said, err := tail.until(func(f frame) bool { return f.typ() == "TOOL_CALL_START" && f.field("toolCallName") == "move" })
			if err != nil {
				t.Fatal(err)
			}
			if got := <-w.said; got != "failed expired" && got != "failed tool_timeout" {
				t.Errorf("the agent heard %s", got)
			}
			w.idle("T")
			call := dispatched(said, "move")
			if got := w.do("POST", "/api/tool_calls/"+call+"/result", `{"ok":true,"result":1}`); got.status != http.StatusConflict {
				t.Errorf("late: HTTP %d %s", got.status, got.body)
			}
			row, err := w.store.ToolCall(t.Context(), store.System(), call)
			if err != nil || row.Status != store.ToolTimeout {
				t.Errorf("%s %v", row.Status, err)
			}
			if trace := w.do("GET", "/v1/runs/"+row.TurnID+"/events", "").body; strings.Count(trace, `"late":true`) != 1 || !strings.Contains(trace, `"status":"SUCCEEDED","result":1,`) {
				t.Errorf("it is not on record: %s", trace)
			}
		})
	}
}

// register registers a tool over the API.
func (w *toolEnv) register(body string) {
	w.t.Helper()
	if got := w.do("POST", "/v1/tools", body); got.status != http.StatusOK {
		w.t.Fatal(got.status, got.body)
	}
}

// TestToolEndsRun: the failure of a tool with on_failure end_run ends the Turn, with one
// RUN_ERROR; of another it is only reported.
func TestToolEndsRun(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]string{"end_run": "FAILED", "return": "DONE"} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			w := &toolEnv{said: make(chan string, 8)}
			w.env = newEnv(t, func(ctx context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
				w.said <- brief(w.invoke(c, "break", `{}`))
				if failure == "end_run" {
					<-ctx.Done() // it would go on
				}
			})
			w.register(fmt.Sprintf(`{"name":"break","kind":"server_tool","endpoint":%q,"policy":{"risk":"low"},"on_failure":%q}`, w.URL+"/nowhere", failure))
			all := w.chat("T", "R", "go")
			if got := <-w.said; got != "failed tool_status" {
				t.Error(got)
			}
			w.idle("T")
			errors := 0
			for _, f := range all {
				if f.typ() == "RUN_ERROR" {
					errors++
				}
			}
			turn := fields(t, w.do("GET", "/api/runs/R", ""))["turn"].(map[string]any)
			if turn["status"] != want || errors != map[string]int{"FAILED": 1, "DONE": 0}[want] {
				t.Errorf("the turn is %v, with %d errors: %s", turn["status"], errors, joined(all))
			}
			w.chat("T", "R2", "again") // the thread goes on
		})
	}
}

// TestToolKeyAcrossAQuestion: the same key is the same call, before, while and after a person
// is asked, and the run token is good all the time.
func TestToolKeyAcrossAQuestion(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		invoke := func() map[string]any {
			return w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},"idempotency_key":"k"}`, c.TurnID))
		}
		first, again := invoke(), invoke()
		end := brief(w.settled(c, first))
		return fmt.Sprint(first["tool_call_id"] == again["tool_call_id"], " ", again["status"], " ", end, " ", brief(invoke()))
	})
	w.chat("T", "R", "go")
	w.decide(w.question(), `{"decision":"approve"}`)
	if got := <-w.said; got != `true pending succeeded {"cut":{"wood":"oak"}} succeeded {"cut":{"wood":"oak"}}` || w.ran.Load() != 1 {
		t.Errorf("%s, and it ran %d times", got, w.ran.Load())
	}
}

// TestToolAgentDoesNotWait: an agent that asks for a tool and ends: the result is not awaited any
// more, so no person is asked, nothing runs, and the chat is free.
func TestToolAgentDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		return fmt.Sprint(w.invoke(c, "cut", `{"wood":"oak"}`)["status"])
	})
	w.chat("T", "R", "go")
	<-w.said
	rows, err := w.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{}, store.Page{})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	w.decide(rows[0].ID, `{"decision":"approve"}`)
	w.idle("T")
	turn := fields(t, w.do("GET", "/api/runs/R", ""))["turn"].(map[string]any)
	if turn["status"] != "DONE" || w.ran.Load() != 0 {
		t.Errorf("the turn is %v, and it ran %d times", turn["status"], w.ran.Load())
	}
}
