package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/queue"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// asksFirst asks where the prompt has it so, and else waits for the gate.
func asksFirst(g *gate) script {
	return func(ctx context.Context, say func(...bridge.Output), c bridge.Call, answers []approval.Delivery) {
		if c.Input().Content.String() == "ask" {
			asks(ctx, say, c, answers)
			return
		}
		g.script(ctx, say, c, answers)
	}
}

// asked waits until a thread has an open question, and gives its id.
func (h *env) asked(runID string) string {
	h.t.Helper()
	h.until(runID, "WAITING_APPROVAL")
	rows, err := h.store.Approvals(h.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
	for _, a := range rows {
		if call, err := h.store.ToolCall(h.t.Context(), store.System(), a.ID); err == nil && call.TurnID == runID {
			return a.ID
		}
	}
	h.t.Fatalf("%s asks nothing: %v", runID, err)
	return ""
}

// TestQueueBesideQuestions: a thread with an open question costs the queue nothing. Its tasks wait for the answer, other tasks
// have the agent's places, and the Turn that waits for a person holds none.
func TestQueueBesideQuestions(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		g := newGate()
		h := newEnvWith(t, asksFirst(g), plan{open: db.open, queue: queue.Limits{PerAgent: 2}})
		var questions []string
		for i := range 4 {
			thread := fmt.Sprintf(`,"session_id":"T%d"`, i)
			asking := h.queues(fmt.Sprintf("a%d", i), "ask", thread)
			questions = append(questions, h.asked(asking.RunID))
			h.queues(fmt.Sprintf("b%d", i), fmt.Sprintf("behind%d", i), thread)
		}
		h.queues("other", "other", "")
		if came := g.sees(t, 1); came[0] != "other" {
			t.Errorf("the agent was called by %q", came)
		}
		time.Sleep(1200 * time.Millisecond) // two looks
		if came := g.seen(); len(came) != 1 || h.task("b0").Status != "WAITING" {
			t.Errorf("the agent was called by %q behind open questions", came)
		}
		close(g.open)
		for i, id := range questions {
			h.decide(id, `{"decision":"approve"}`)
			h.until(fmt.Sprintf("b%d", i), "DONE")
		}
	})
}

// TestQueueManyQuestions: a user with many tasks that wait for answers gets no more begun, whose questions would be refused.
func TestQueueManyQuestions(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newEnvWith(t, asksFirst(g), plan{queue: queue.Limits{PerAgent: 1}, bridge: bridge.Limits{QuestionsPerUser: 8}})
	first := h.queues("a0", "ask", "")
	question := h.asked(first.RunID)
	h.asked(h.queues("a1", "ask", "").RunID)
	third := h.queues("a2", "ask", "")
	time.Sleep(1200 * time.Millisecond) // two looks
	if now := h.task("a2"); now.Status != "WAITING" {
		t.Errorf("behind two questions it is %+v", now)
	}
	h.decide(question, `{"decision":"approve"}`)
	h.until(first.RunID, "DONE")
	h.asked(third.RunID)
}

// TestQueueOfIdleAgent: however much waits for busy agents, an idle one gets its task.
func TestQueueOfIdleAgent(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newEnvWith(t, g.script, plan{queue: queue.Limits{PerAgent: 1}})
	t.Cleanup(func() { close(g.open) })
	const busy, each = 33, 40
	idle := newGate()
	close(idle.open)
	h.agents.Add("idle", &scripted{script: idle.script})
	for i := range busy {
		h.agents.Add(fmt.Sprintf("busy%02d", i), &scripted{script: g.script})
	}
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		var err error
		for i := range busy * each {
			name := fmt.Sprintf("n%06d", i)
			err = errors.Join(err, tx.InsertTask(t.Context(), store.Task{
				ID: fmt.Sprintf("0198f000-0000-7000-8000-%012d", i), Tenant: "local", User: "local", RequestID: name, ThreadID: name, AgentID: fmt.Sprintf("busy%02d", i%busy),
				Status: store.TaskWaiting, Body: []byte(`{"messages":[{"id":"m","role":"user","content":"x"}]}`), BodyHash: []byte("h"), CreatedAt: time.Now(),
			}))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.until(h.queues("mine", "mine", `,"agent_id":"idle"`).RunID, "DONE")
}

// TestQueueIsFair: one user's many tasks delay another's first by one. A priority is one among the tasks of its user: however high,
// it does not pass the tasks of others.
func TestQueueIsFair(t *testing.T) {
	t.Parallel()
	for name, priority := range map[string]int{"alike": 0, "urgent before idle": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, keys := keyed(t)
			g := newGate()
			p.queue.PerAgent = 2
			h := newEnvWith(t, g.script, p)
			as := func(user string, n, priority int) {
				token := bearerOf(issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user}}, time.Hour))
				for i := range n {
					name := fmt.Sprintf("%s%d", user, i)
					body := fmt.Sprintf(`{"request_id":%q,"message":{"content":%q},"priority":%d}`, name, name, priority)
					if got := h.do("POST", "/v1/runs", body, token...); got.status != 202 {
						t.Fatal(got)
					}
				}
			}
			as("ann", 12, priority)
			g.sees(t, 2)
			as("bob", 3, -priority)
			for range 4 {
				g.open <- struct{}{}
			}
			came := g.sees(t, 6)
			if !strings.HasPrefix(came[2], "bob") && !strings.HasPrefix(came[3], "bob") {
				t.Errorf("bob waits behind all of ann's: %q", came)
			}
			close(g.open)
		})
	}
}

// TestQueueForeign: another user's task is not there, whatever names it, and a task that waits is not given to an agent of another
// tenant that has taken the id meanwhile.
func TestQueueForeign(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, nil)
	own, foreign := newOutside(t, "own"), newOutside(t, "foreign")
	held := make(chan bool)
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	own.busy = func(*http.Request) { <-held }
	if got := d.registers("planner", "p", own.url, ""); got.status != 200 {
		t.Fatal(got)
	}
	task := func(who, request string, more string) answer {
		return d.by(who, "POST", "/v1/runs", fmt.Sprintf(`{"request_id":%q,"message":{"content":"secret of %s"}%s}`, request, who, more))
	}
	if got := task("gus", "g", `,"agent_id":"p"`); got.status == 202 || !strings.Contains(got.body, "agent_unknown") {
		t.Errorf("another tenant's agent takes a task: %v", got)
	}
	ids := make([]string, 10)
	for i := range ids {
		var of queuedTask
		got := task("ann", fmt.Sprint("q", i), `,"agent_id":"p"`)
		if err := json.Unmarshal([]byte(got.body), &of); err != nil || got.status != 202 {
			t.Fatal(got)
		}
		ids[i] = of.RunID
	}
	const last = 9 // of which 8 have room
	for _, who := range []string{"ada", "gus", "gil"} {
		for _, id := range []string{ids[last], ids[0], "q9", "q0"} {
			if got := d.by(who, "GET", "/v1/runs/"+id, ""); got.status != 404 {
				t.Errorf("%s reads it: %v", who, got)
			}
			if got := d.by(who, "POST", "/api/runs/"+id+"/cancel", "{}"); got.status != 404 {
				t.Errorf("%s cancels it: %v", who, got)
			}
		}
	}
	if got := d.by("ann", "GET", "/v1/runs/"+ids[last], ""); !strings.Contains(got.body, `"WAITING"`) {
		t.Fatal(got)
	}
	if got := d.by("planner", "DELETE", "/v1/agents/p", ""); got.status != 204 {
		t.Fatal(got)
	}
	if got := d.registers("stranger", "p", foreign.url, ""); got.status != 200 {
		t.Fatal(got)
	}
	release()
	eventually(t, func() error {
		got := d.by("ann", "GET", "/v1/runs/"+ids[last], "")
		if !strings.Contains(got.body, `"FAILED"`) {
			return fmt.Errorf("the task that waited is %s", got.body)
		}
		return nil
	})
	if len(foreign.last()) != 0 {
		t.Error("another tenant's agent got a task")
	}
}
