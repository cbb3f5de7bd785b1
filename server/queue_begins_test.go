package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge/queue"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestQueueBehindUnwatched: a task waits for what its thread is doing, also where no client watches it, and cancels nothing.
func TestQueueBehindUnwatched(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newEnvWith(t, g.script, plan{})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		req := h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R1","messages":[{"id":"u1","role":"user","content":"typed"}]}`)
		if resp, err := http.DefaultClient.Do(req.WithContext(ctx)); err == nil {
			<-ctx.Done()
			_ = resp.Body.Close()
		}
	}()
	g.sees(t, 1)
	leave()
	time.Sleep(200 * time.Millisecond) // the server notices
	task := h.queues("q", "task", `,"session_id":"T"`)
	time.Sleep(1500 * time.Millisecond) // some looks, and longer than a message waits for others to leave
	if got := h.task("R1").Status; got != "RUNNING" {
		t.Errorf("what nobody watches is %s", got)
	}
	close(g.open)
	h.until("R1", "DONE")
	h.until(task.RunID, "DONE")
	if came := strings.Join(g.seen(), " "); came != "typed task" {
		t.Errorf("the agent was called by %s", came)
	}
}

// lateStore is a store in which something comes between a task and its run.
type lateStore struct {
	store.Store
	mu     sync.Mutex
	before func() // is called when the queue reads the next task that it has taken
	fails  error  // of the next InsertOutbox
}

func (s *lateStore) Task(ctx context.Context, in store.Scope, id string) (store.Task, error) {
	t, err := s.Store.Task(ctx, in, id)
	s.mu.Lock()
	before := s.before
	if in.All() {
		s.before = nil
	}
	s.mu.Unlock()
	if in.All() && before != nil {
		before()
	}
	return t, err
}

func (s *lateStore) InTx(ctx context.Context, do func(store.Tx) error) error {
	return s.Store.InTx(ctx, func(tx store.Tx) error { return do(&lateTx{tx, s}) })
}

type lateTx struct {
	store.Tx
	s *lateStore
}

func (t *lateTx) InsertOutbox(ctx context.Context, o store.OutboxItem) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.s.fails; err != nil {
		t.s.fails = nil
		return err
	}
	return t.Tx.InsertOutbox(ctx, o)
}

func late(s *lateStore) func(testing.TB) (store.Store, error) {
	return func(t testing.TB) (store.Store, error) {
		made, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
		s.Store = made
		return s, err
	}
}

// TestQueueCancelTaken: a task that is cancelled in the moment in which it becomes a run does not become one.
func TestQueueCancelTaken(t *testing.T) {
	t.Parallel()
	g := newGate()
	close(g.open)
	st := new(lateStore)
	h := newEnvWith(t, g.script, plan{open: late(st)})
	var got answer
	done := make(chan struct{})
	st.mu.Lock()
	st.before = func() {
		defer close(done)
		if now := h.task("q"); now.Status != "TAKEN" {
			t.Errorf("it is %+v", now)
		}
		got = h.do("POST", "/api/runs/"+h.task("q").RunID+"/cancel", "{}")
	}
	st.mu.Unlock()
	task := h.queues("q", "task", "")
	<-done
	if got.status != 202 || !strings.Contains(got.body, "CANCELLED") {
		t.Errorf("cancelled: %v", got)
	}
	h.until(h.queues("next", "next", "").RunID, "DONE")
	if now := h.task(task.RunID); now.Status != "CANCELLED" || strings.Join(g.seen(), " ") != "next" {
		t.Errorf("it is %+v, the agent was called by %q", now, g.seen())
	}
}

// TestQueueCallback: what comes of a queued message is at the channel's callback, also where its cursor could not be kept the
// first time.
func TestQueueCallback(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{"": nil, "the cursor is not kept at first": store.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &lateStore{fails: fails}
			k := newHookedWith(t, saysN(1), plan{open: late(st)})
			got := fields(t, k.post(strings.Replace(invoked, `"message"`, `"mode":"async","message"`, 1)))
			if got["type"] != "task_enqueued" {
				t.Fatal(got)
			}
			all := k.gather(5)
			if last := all[len(all)-1]; last.Type != "done" || last.RunID != got["run_id"] || all[0].Type != "run_started" {
				t.Error(gist(all))
			}
			if n := len(k.agent.prompts()); n != 1 {
				t.Errorf("%d calls of the agent", n)
			}
		})
	}
}

// TestQueueCallbackOfEnded: a channel's callback gets the end of a queued message that never becomes a run, once: of one that is
// cancelled, and of one that cannot be begun.
func TestQueueCallbackOfEnded(t *testing.T) {
	t.Parallel()
	g := newGate()
	k := newHookedWith(t, g.script, plan{queue: queue.Limits{PerAgent: 1}})
	k.agents.Add("passing", &scripted{script: g.script})
	enqueue := func(request, more string) (run string) {
		t.Helper()
		got := fields(t, k.post(fmt.Sprintf(`{"type":"agent_invoke","request_id":%q,"user_id":"ann","session_id":"s1","mode":"async","message":{"content":"hi"}%s}`, request, more)))
		if run, _ = got["run_id"].(string); got["type"] != "task_enqueued" {
			t.Fatal(got)
		}
		return run
	}
	came := make(map[string][]channelMessage) // at the callback, by run
	ends := func(request, run, want string) {
		t.Helper()
		all := came[run]
		for ; len(all) == 0 || all[len(all)-1].Type != "done" && all[len(all)-1].Type != "error"; all = came[run] {
			m := k.gather(1)[0]
			came[m.RunID] = append(came[m.RunID], m)
		}
		if got := gist(all); !strings.HasSuffix(got, want) || all[0].RequestID != request || all[0].SessionID != "s1" || all[0].Seq == 0 {
			t.Errorf("%s is %s, not %s: %s", request, got, want, all[0].raw)
		}
	}
	first := enqueue("r1", "")
	g.sees(t, 1)
	cancelled, failed := enqueue("r2", ""), enqueue("r3", `,"agent_id":"passing"`)
	for range 2 {
		k.post(fmt.Sprintf(`{"type":"cancel_run","request_id":"c","user_id":"ann","session_id":"s1","run_id":%q}`, cancelled))
	}
	ends("r2", cancelled, "state CANCELLED | done")
	k.agents.Remove("passing")
	close(g.open)
	ends("r3", failed, "state FAILED | error agent_unknown")
	ends("r1", first, "state DONE | done")
	if n := len(came[cancelled]) + len(came[failed]) + len(k.messages); n != 4 {
		t.Errorf("%d messages of what never began: %s, %s", n, gist(came[cancelled]), gist(came[failed]))
	}
}
