package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
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
		h := newEnvWith(t, asksFirst(g), plan{open: db.open, bridge: bridge.Limits{TasksPerAgent: 2}})
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
	h := newEnvWith(t, asksFirst(g), plan{bridge: bridge.Limits{TasksPerAgent: 1, QuestionsPerUser: 8}})
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
	h := newEnvWith(t, g.script, plan{bridge: bridge.Limits{TasksPerAgent: 1}})
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

// TestQueuePriority: a priority is one among the tasks of its user. However high, it does not pass the tasks of others.
func TestQueuePriority(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	g := newGate()
	p.bridge.TasksPerAgent = 2
	h := newEnvWith(t, g.script, p)
	as := func(user string, n, priority int) {
		for i := range n {
			name := fmt.Sprintf("%s%d", user, i)
			body := fmt.Sprintf(`{"request_id":%q,"message":{"content":%q},"priority":%d}`, name, name, priority)
			if got := h.do("POST", "/v1/runs", body, bearerOf(issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user}}, time.Hour))...); got.status != 202 {
				t.Fatal(got)
			}
		}
	}
	as("ann", 12, 10)
	g.sees(t, 2)
	as("bob", 3, -10)
	for range 4 {
		g.open <- struct{}{}
	}
	came := g.sees(t, 6)
	if !strings.HasPrefix(came[2], "bob") && !strings.HasPrefix(came[3], "bob") {
		t.Errorf("bob waits behind all of ann's: %q", came)
	}
	close(g.open)
}
