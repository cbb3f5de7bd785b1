package bridge_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/store"
)

func withdrawn(id string) bridge.Output { return bridge.Output{Withdrawn: id} }

func (h *harness) cancelledByAgent(a store.Approval) {
	h.t.Helper()
	call, err := h.store.ToolCall(h.t.Context(), store.System(), a.ID)
	if err != nil || a.Status != store.ApprovalCancelled || a.DecidedVia != "agent" || call.Status != store.ToolFailed || call.DeliveredAt.IsZero() {
		h.t.Fatalf("%+v, %+v, %v", a, call, err)
	}
}

// Taken back before anybody was shown it, a Question leaves no trace in the chat, and its
// Run goes on.
func TestAQuestionIsTakenBackInItsRun(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, never(), nil)
	started, _ := h.post(ask("t1", "hi"))
	a.emit("1", permission("q1"))
	h.until("1")
	a.emit("2", withdrawn("q1"), withdrawn("nobody's"))
	h.until("2")
	turn, err := h.store.ActiveTurn(t.Context(), store.System(), h.session("t1").ID)
	if err != nil || turn.Status != store.TurnRunning {
		t.Fatalf("%+v, %v", turn, err)
	}
	h.cancelledByAgent(h.approvals()[0])
	a.emit("3", append(text("never mind"), done())...)
	if got := types(started.rest(t)); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
	if len(a.told) > 0 {
		t.Fatal("the agent was told an answer")
	}
}

// runs waits until a thread has a number of Runs that have begun.
func (h *harness) runs(thread string, n int) {
	h.t.Helper()
	h.logs(thread, "RUN_STARTED", n)
}

// logs waits until a thread's log has so many events of a type.
func (h *harness) logs(thread, event string, n int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	feed, err := h.sessions.Feeds().Thread(ctx, store.As(h.who), h.session(thread), 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer feed.Close()
	for strings.Count(strings.Join(h.log(thread), ""), `"`+event+`"`) < n {
		if _, err := feed.Next(ctx); err != nil {
			h.t.Fatalf("no %d of %s: %v", n, event, err)
		}
	}
}

// resting waits until no Run of a thread is open or reserved.
func (h *harness) resting(thread string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		todo, err := h.store.Agenda(h.t.Context(), store.System(), h.session(thread).ID)
		if err != nil || time.Now().After(deadline) {
			h.t.Fatalf("still at work: %+v, %v", todo, err)
		}
		if todo.Running == "" && todo.Run == nil && !todo.Settled {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// What was answered beside one that is taken back is delivered.
func TestTheOtherAnswerIsDeliveredWhenOneIsTakenBack(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, never(), nil)
	started, _ := h.post(ask("t1", "hi"))
	a.emit("1", permission("q1"))
	a.emit("2", permission("q2"))
	h.until("2")
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, h.approvals()[0].ID, yes(""), "rest"); err != nil {
		t.Fatal(err)
	}
	a.emit("3", withdrawn("q2"))
	if told := receive(h, a.told); told.UpstreamID != "q1" || told.Status != "resolved" {
		t.Fatalf("%+v", told)
	}
	a.emit("4", done())
	started.rest(t)
	if len(a.told) > 0 {
		t.Fatal("the agent was told of what it took back")
	}
}

func TestAShownQuestionIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"held": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHeld()
			h, _ := parkedHarness(t, a, "q1")
			if restarted {
				h.restart()
				h.spoke("t1")
			}
			a.emit("2", withdrawn("q1"))
			h.until("2")
			h.runs("t1", 2)
			a.emit("3", append(text("never mind"), done())...)
			events := h.ended("t1")
			want := resulted + "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
			if got := types(events); !strings.HasSuffix(got, want) {
				t.Fatalf("got %s", got)
			}
			h.cancelledByAgent(h.approvals()[0])
			if len(a.told) > 0 {
				t.Fatal("the agent was told an answer")
			}
		})
	}
}

// Who takes back all it asked and ends waits for nothing.
func TestAllTakenBackAndEnded(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, _ := parkedHarness(t, a, "q1")
	a.emit("2", append(append([]bridge.Output{withdrawn("q1")}, text("never mind")...), done())...)
	events := h.ended("t1")
	if got := types(events); !strings.HasSuffix(got, resulted+"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED") {
		t.Fatalf("got %s", got)
	}
	if len(a.told) > 0 || len(a.called) > 0 {
		t.Fatal("the agent was told an answer")
	}
}

func TestOneOfTwoTakenBackLeavesTheTurnParked(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1", "q2")
	a.emit("2", withdrawn("q1"))
	h.until("2")
	h.cancelledByAgent(h.approvals()[0])
	h.runs("t1", 2)
	h.resting("t1")
	if turn, err := h.store.ActiveTurn(t.Context(), store.System(), h.session("t1").ID); err != nil || !turn.Status.Paused() {
		t.Fatalf("%+v, %v", turn, err)
	}
	going, _ := h.post(answer("t1", yes(ids[1])))
	if told := receive(h, a.told); told.UpstreamID != "q2" || len(a.told) > 0 {
		t.Fatalf("%+v, and %d more", told, len(a.told))
	}
	a.emit("3", done())
	if got := types(going.rest(t)); got != resulted+"RUN_FINISHED" { // of q2 alone: that q1 was taken back is said already
		t.Fatalf("got %s", got)
	}
}
