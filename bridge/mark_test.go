package bridge_test

import (
	"context"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
)

func TestMarksAreKeptInOrder(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	started, _ := h.post(ask("t1", "hi"))
	a.emit("1", text("one")...)
	h.until("1")
	if got := h.lastMark("t1"); got != "1" {
		t.Fatalf("the log is marked %q", got)
	}
	a.emit("2", bridge.Output{}) // nothing to keep, and still to be heard of
	h.until("2")
	a.emit("3", text("two")...)
	a.emit("4", done())
	started.rest(t)
	h.until("4")
	if got := h.lastMark("t1"); got != "4" {
		t.Fatalf("the log is marked %q", got)
	}
	if call := receive(h, a.called); call.resumed || call.Cursor != "" {
		t.Fatalf("%+v", call)
	}
}

// A Run that a restart interrupted is gone on with where it stood.
func TestARunIsTakenUpBehindItsMark(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	h.post(ask("t1", "hi"))
	a.emit("1", bridge.Output{Event: &agui.StateSnapshot{Snapshot: []byte(`{"n":1}`)}},
		bridge.Output{Event: &agui.TextMessageStart{MessageID: "m", Role: "assistant"}},
		bridge.Output{Event: &agui.TextMessageContent{MessageID: "m", Delta: "Hel"}})
	h.until("1")
	receive(h, a.called)
	h.restart()
	if call := receive(h, a.called); !call.resumed || call.answers != nil || call.Cursor != "1" {
		t.Fatalf("%+v", call)
	}
	a.emit("2", bridge.Output{Event: &agui.TextMessageContent{MessageID: "m", Delta: "lo"}},
		bridge.Output{Event: &agui.StateDelta{Delta: []byte(`[{"op":"replace","path":"/n","value":2}]`)}})
	a.emit("3", done())
	want := "RUN_STARTED STATE_SNAPSHOT TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT STATE_DELTA TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(h.ended("t1")); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	messages, err := h.store.Messages(t.Context(), store.System(), h.session("t1").ID, store.Page{})
	if err != nil || len(messages) != 2 || !strings.Contains(string(messages[1].Data), `"Hello"`) {
		t.Fatalf("%v, %v", messages, err)
	}
	if s := h.session("t1"); string(s.State) != `{"n":2}` {
		t.Fatalf("state %s", s.State)
	}
}

// A gateway may wait for its proxy; a cancel must not.
func TestACancelGetsThroughWhileAnUpstreamIsTakenUp(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	_, reply := h.post(ask("t1", "hi"))
	a.emit("1", text("one")...)
	h.until("1")
	receive(h, a.called)
	a.resume = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	h.restart()
	receive(h, a.called)
	if _, err := h.sessions.Cancels().Cancel(t.Context(), h.who, reply.Run.ID); err != nil {
		t.Fatal(err)
	}
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, "cancelled") {
		t.Fatalf("ended with %s", last)
	}
}

func TestARunThatCannotBeTakenUpFails(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	h.post(ask("t1", "hi"))
	a.emit("1", text("one")...)
	h.until("1")
	a.resume = func(context.Context) error { return bridge.ErrCannotResume }
	h.restart()
	events := h.ended("t1")
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeServerRestarted) {
		t.Fatalf("ended with %s", last)
	}
}

// A Turn that is cancelled right after a restart that interrupted it: the Run that was open gets its one end, and no
// other Run is opened beside it.
func TestACancelRightAfterARestart(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	h.post(ask("t1", "hi"))
	a.emit("1", text("one")...)
	h.until("1")
	receive(h, a.called)
	id := h.session("t1").ID
	turn, err := h.store.ActiveTurn(t.Context(), store.System(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error { // nobody rings: the next process finds both
		return tx.InsertCommand(t.Context(), store.Command{ID: newTestID(), SessionID: id, TurnID: turn.ID, Kind: store.CommandCancel})
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	want := "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	if got := types(h.ended("t1")); got != want {
		t.Fatalf("got %s", got)
	}
	runs, err := h.store.RunsOfTurn(t.Context(), store.System(), turn.ID)
	if err != nil || len(runs) != 1 || runs[0].Status != store.RunCancelled {
		t.Fatalf("%+v, %v", runs, err)
	}
}
