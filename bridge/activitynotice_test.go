package bridge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/store"
)

func (h *harness) spoke(thread string) {
	h.t.Helper()
	if err := h.sessions.NotifyActivity(h.t.Context(), h.session(thread).ID); err != nil {
		h.t.Fatal(err)
	}
}

// A paused Turn whose upstream speaks after a restart is held again: what it says is live, and it is told the answer.
func TestAParkedTurnIsAdopted(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h, ids := parkedHarness(t, a, "q1")
	a.emit("2", text("before")...)
	h.until("2")
	h.restart()
	h.spoke("t1")
	if call := receive(h, a.called); !call.resumed || call.answers != nil || call.Cursor != "2" || call.Unprompted {
		t.Fatalf("%+v", call)
	}
	a.emit("3", text("after")...)
	h.until("3")
	h.spoke("t1") // it is read already
	h.resting("t1")
	going, _ := h.post(answer("t1", yes(ids[0])))
	if told := receive(h, a.told); told.UpstreamID != "q1" || len(a.called) > 0 {
		t.Fatalf("%+v, and %d more calls", told, len(a.called))
	}
	a.emit("4", done())
	if got := types(going.rest(t)); got != resulted+"RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
}

// atRest is a harness with a thread on which a Turn has ended.
func atRest(t *testing.T, a *held) *harness {
	t.Helper()
	h := newHeldHarness(t, a, soon(), nil)
	a.emit("1", append(text("hello"), done())...)
	h.chat(ask("t1", "hi"))
	receive(h, a.called)
	h.idle("t1")
	return h
}

func TestAnAgentMaySpeakUnprompted(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := atRest(t, a)
	var speaking sync.WaitGroup
	for range 8 {
		speaking.Go(func() { h.spoke("t1") })
	}
	speaking.Wait()
	if call := receive(h, a.called); !call.resumed || !call.Unprompted || call.Cursor != "1" || call.answers != nil {
		t.Fatalf("%+v", call)
	}
	a.emit("2", append(text("by the way"), done())...)
	events := h.ended("t1")
	want := "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(events); got != want+" "+want {
		t.Fatalf("got %s", got)
	}
	if second := events[5]; strings.Contains(second, `"input"`) || !strings.HasPrefix(second, `{"type":"RUN_STARTED"`) {
		t.Fatalf("began with %s", second)
	}
	runs, err := h.store.LastRun(t.Context(), store.System(), h.session("t1").ID)
	if err != nil || !strings.Contains(string(runs.Profile), bridge.DialectV1) || len(a.called) > 0 {
		t.Fatalf("%+v, %v, and %d more calls", runs, err, len(a.called))
	}
}

func TestAnUnpromptedTurnThatCannotBeReadFails(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := atRest(t, a)
	a.resume = func(context.Context) error { return bridge.ErrCannotResume }
	h.spoke("t1")
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeAgentGone) { // no server was restarted
		t.Fatalf("ended with %s", last)
	}
}

// A prompt ends what the Agent says by itself, and is answered.
func TestAPromptEndsAnUnpromptedRun(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := atRest(t, a)
	h.spoke("t1")
	receive(h, a.called)
	a.emit("2", text("by the way")...)
	h.until("2")
	going, _ := h.post(ask("t1", "me too"))
	if call := receive(h, a.called); call.resumed || call.Unprompted || call.Input().Content.String() != "me too" {
		t.Fatalf("%+v", call)
	}
	a.emit("3", append(text("to you"), done())...)
	if got := types(going.rest(t)); got != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
	want := "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(h.ended("t1")); got != want+" "+want+" "+want {
		t.Fatalf("got %s", got)
	}
	if strings.Contains(strings.Join(h.log("t1"), ""), `"cancelled"`) {
		t.Fatal("what the agent said by itself ended as cancelled")
	}
}

// A Turn that nothing moves any more is found, counted and ended, and its thread can be used again.
func TestAStrandedTurnIsEnded(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := atRest(t, a)
	s := h.session("t1")
	id := newTestID()
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.InsertTurn(t.Context(), store.Turn{ID: id, SessionID: s.ID, AgentID: s.AgentID, Status: store.TurnPausedApproval, Upstream: store.UpstreamWaits}),
			tx.InsertRun(t.Context(), store.Run{ID: id, SessionID: s.ID, TurnID: id, ExternalID: id, Status: store.RunInterrupted, FirstSeq: 1000, LastSeq: 1001}))
	}); err != nil {
		t.Fatal(err)
	}
	for looks := 0; h.stranded.Load() == 0; looks++ { // the goroutine that drove the Session may still be about to leave
		if err := bridge.LookForStranded(t.Context(), h.sessions); err != nil || looks == 10_000 {
			t.Fatal(looks, err)
		}
		<-time.After(time.Millisecond)
	}
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeInternal) {
		t.Fatalf("ended with %s", last)
	}
	if n := h.stranded.Load(); n != 1 {
		t.Fatalf("counted %d times", n)
	}
}
