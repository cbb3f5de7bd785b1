package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/queue"
	"aqueduct/store"
)

// gate is an agent that answers with the prompt when it is let go on, and notes who came, and how many were there at once.
type gate struct {
	mu       sync.Mutex
	came     []string
	now, top int
	open     chan struct{} // one Turn goes on for each value; all once it is closed
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) script(ctx context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
	input := c.Input()
	text := input.Content.String()
	g.mu.Lock()
	g.came = append(g.came, text)
	g.now++
	g.top = max(g.top, g.now)
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
	say(bridge.Output{Event: &agui.TextMessageChunk{MessageID: "m-" + c.TurnID, Delta: "did " + text}}, bridge.Output{End: &bridge.End{}})
}

func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.came...)
}

// sees waits until the agent has been called n times, and gives by what.
func (g *gate) sees(t *testing.T, n int) []string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if came := g.seen(); len(came) >= n {
			return came
		}
		if time.Now().After(end) {
			t.Fatalf("the agent was called by %q only", g.seen())
		}
	}
}

type queuedTask struct {
	Type      string
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	Status    string
	Error     string `json:"error_code"`
}

// queues puts a prompt into the queue; more are further members.
func (h *env) queues(request, text, more string) queuedTask {
	h.t.Helper()
	got := h.do("POST", "/v1/runs", fmt.Sprintf(`{"request_id":%q,"message":{"content":%q}%s}`, request, text, more))
	var out queuedTask
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != 202 || out.Type != "task_enqueued" {
		h.t.Fatalf("%s: %v", request, got)
	}
	return out
}

func (h *env) task(id string) (out queuedTask) {
	h.t.Helper()
	got := h.do("GET", "/v1/runs/"+id, "")
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != 200 {
		h.t.Fatal(got)
	}
	return out
}

func (h *env) until(id, status string) queuedTask {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if out := h.task(id); out.Status == status {
			return out
		} else if time.Now().After(end) {
			h.t.Fatalf("the run is %+v and not %s", out, status)
		}
	}
}

// TestQueue: a task has its run_id at once, waits for room, keeps its place, and becomes a run of that id; by priority, fairly
// among users, one thread in order.
func TestQueue(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		g := newGate()
		h := newEnvWith(t, g.script, plan{open: db.open, queue: queue.Limits{PerAgent: 1}})
		first := h.queues("q1", "one", "")
		g.sees(t, 1)
		second, low := h.queues("q2", "two", `,"session_id":"T"`), h.queues("q3", "three", `,"session_id":"T"`)
		urgent, dropped := h.queues("q4", "four", `,"priority":5`), h.queues("q5", "five", "")
		if again := h.queues("q2", "two", `,"session_id":"T"`); again != second {
			t.Errorf("the same request is %+v and then %+v", second, again)
		}
		if got := h.do("POST", "/v1/runs", `{"request_id":"q2","session_id":"T","message":{"content":"other"}}`); got.status != 409 || !strings.Contains(got.body, "run_id_conflict") {
			t.Errorf("another request of the same id: %v", got)
		}
		if got := h.task("q2"); got.Status != "WAITING" || got.RunID != second.RunID || got.SessionID != "T" {
			t.Errorf("what waits is %+v", got)
		}
		if got := h.do("POST", "/api/runs/"+dropped.RunID+"/cancel", "{}"); got.status != 202 || !strings.Contains(got.body, "CANCELLED") {
			t.Error(got)
		}
		if got := h.task(dropped.RunID); got.Status != "CANCELLED" {
			t.Errorf("what was cancelled is %+v", got)
		}
		for n := range 4 {
			g.open <- struct{}{}
			if n < 3 {
				g.sees(t, n+2)
			}
		}
		for _, task := range []queuedTask{first, urgent, second, low} {
			h.until(task.RunID, "DONE")
		}
		if came := strings.Join(g.seen(), " "); came != "one four two three" {
			t.Errorf("the agent was called by %s", came)
		}
		if g.top != 1 {
			t.Errorf("%d at once", g.top)
		}
		if again := h.queues("q2", "two", `,"session_id":"T"`); again.RunID != second.RunID {
			t.Errorf("the same request, after it is done, is %+v", again)
		}
		if history := h.do("GET", "/api/threads/T/messages", "").body; strings.Count(history, "did two") != 1 || strings.Count(history, "did three") != 1 {
			t.Error(history)
		}
		if got := h.do("POST", "/v1/runs", `{"message":{"content":"x"},"agent_id":"none"}`); got.status == 202 {
			t.Error(got)
		}
	})
}

// queueCases are the requests that get the codes of the queue.
func queueCases(t *testing.T, cases map[string]func() answer) {
	g := newGate()
	h := newEnvWith(t, g.script, plan{queue: queue.Limits{PerAgent: 1, PerUser: 1}})
	t.Cleanup(func() { close(g.open) })
	cases["queue_full"] = func() answer {
		h.queues("first", "first", "")
		g.sees(t, 1)
		h.queues("second", "second", "")
		return h.do("POST", "/v1/runs", `{"message":{"content":"third"}}`)
	}
	cases["task_too_large"] = func() answer {
		return h.do("POST", "/v1/runs", `{"message":{"content":"`+strings.Repeat("x", 1<<20)+`"}}`)
	}
}

// TestQueueAfterPrompt: a task whose thread got a prompt of its own meanwhile comes behind it, and its agent is given that
// prompt and its answer.
func TestQueueAfterPrompt(t *testing.T) {
	t.Parallel()
	g := newGate()
	var history []string
	h := newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), c bridge.Call, a []approval.Delivery) {
		if input := c.Input(); input.Content.String() == "task" {
			for _, m := range c.Messages {
				history = append(history, m.Content.String())
			}
		}
		g.script(ctx, say, c, a)
	}, plan{queue: queue.Limits{PerAgent: 1}})
	h.queues("block", "block", "")
	g.sees(t, 1)
	task := h.queues("q", "task", `,"session_id":"T"`)
	done := make(chan []frame, 1)
	go func() { done <- h.chat("T", "R1", "prompt") }()
	g.sees(t, 2)
	close(g.open)
	<-done
	h.until(task.RunID, "DONE")
	if got := strings.Join(history, " | "); got != "prompt | did prompt | task" {
		t.Errorf("the agent is given %s", got)
	}
}

// TestQueueOnSocket: agent_invoke with mode async, or where the policy has it so, is answered with task_enqueued and followed by
// what comes of it; a task that cannot be begun is an error.
func TestQueueOnSocket(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{rules: "links:\n- {label: batch, link: async}\n- {cost_over: 2, link: async}\n"})
	for name, more := range map[string]string{"mode": `"mode":"async"`, "label": `"labels":["batch"]`, "cost": `"expected_cost":2.5`} {
		c := h.channel("")
		c.send(fmt.Sprintf(`{"type":"agent_invoke","request_id":%q,"message":{"role":"user","content":"hi"},%s}`, name, more))
		enqueued := last(c.until("task_enqueued"))
		if started := last(c.until("run_started")); enqueued.RunID == "" || started.RunID != enqueued.RunID || started.SessionID != enqueued.SessionID {
			t.Errorf("%s: %+v is followed by %+v", name, enqueued, started)
		}
		c.until("done")
	}
	c := h.channel("")
	c.send(`{"type":"agent_invoke","request_id":"now","message":{"role":"user","content":"hi"},"labels":["batch"],"mode":"sync"}`)
	c.until("run_started")
}

// TestQueueEndsOnSocket: a task that is cancelled before it begins ends as a Turn that is cancelled does, and one that cannot be begun
// as one that fails.
func TestQueueEndsOnSocket(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newEnvWith(t, g.script, plan{queue: queue.Limits{PerAgent: 1}})
	h.queues("first", "first", "")
	g.sees(t, 1)
	c := h.channel("")
	c.send(`{"type":"agent_invoke","request_id":"r1","message":{"role":"user","content":"hi"},"mode":"async"}`)
	task := c.next()
	if got := h.do("POST", "/api/runs/"+task.RunID+"/cancel", "{}"); got.status != 202 {
		t.Error(got)
	}
	all := c.until("done")
	if got := gist(all); got != "state CANCELLED | done" || all[1].RunID != task.RunID || all[1].RequestID != "r1" {
		t.Errorf("what was cancelled ends by %s: %s", got, all[1].raw)
	}
	c.send(`{"type":"agent_invoke","request_id":"r2","message":{"role":"user","content":"hi"},"mode":"async"}`)
	task = c.next()
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.MoveTask(t.Context(), store.TaskMove{ID: task.RunID, From: store.TaskWaiting, To: store.TaskFailed, Code: "agent_unknown", Message: "It is gone.", EndedAt: time.Now()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if state, failed := c.next(), c.next(); state.is() != "state FAILED" || failed.Type != "error" || failed.Code != "agent_unknown" || failed.RunID != task.RunID {
		t.Errorf("what failed ends by %s and %s", state.raw, failed.raw)
	}
	close(g.open)
}

// TestQueueOfKilled: what a server that is gone had taken and not begun is begun by another, once.
func TestQueueOfKilled(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		g := newGate()
		close(g.open)
		h := newEnvWith(t, g.script, plan{open: db.open, queue: queue.Limits{PerAgent: 1}})
		lost := store.Task{
			ID: "0198f000-0000-7000-8000-000000000001", Tenant: "local", User: "local", RequestID: "lost", ThreadID: "lost", AgentID: "scripted",
			Status: store.TaskWaiting, Body: []byte(`{"messages":[{"id":"m","role":"user","content":"lost"}]}`), BodyHash: []byte("h"), CreatedAt: time.Now(),
		}
		if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
			if err := tx.InsertTask(t.Context(), lost); err != nil {
				return err
			}
			_, err := tx.MoveTask(t.Context(), store.TaskMove{ID: lost.ID, From: store.TaskWaiting, To: store.TaskTaken, Replica: "gone"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		h.until(lost.ID, "DONE")
		h.until(h.queues("next", "next", "").RunID, "DONE")
		if came := strings.Join(g.seen(), " "); came != "lost next" {
			t.Errorf("the agent was called by %s", came)
		}
	})
}
