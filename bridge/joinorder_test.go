package bridge_test

import (
	"slices"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// TestJoinHasTheOrderOfTheLog checks a client that joins in the middle of the third Turn. It has the messages in the order of a
// client that was there from the start. It joins once without messages, and once with those of the first two Turns. Clients add
// the messages of RUN_STARTED before those of the snapshot, and a message keeps the place where it was first named (agui.Fold
// does the same).
func TestJoinHasTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{bridge.DialectV1, bridge.DialectV0} {
		a := &scripted{script: func(c bridge.Call, _ []approval.Delivery) []bridge.Output {
			said := []bridge.Output{
				{Event: &agui.ActivitySnapshot{MessageID: "plan-" + c.TurnID, ActivityType: "PLAN", Content: []byte(`{"steps":["look"]}`)}},
				{Event: &agui.ToolCallStart{ToolCallID: "call-" + c.TurnID, ToolCallName: "look"}},
				{Event: &agui.ToolCallEnd{ToolCallID: "call-" + c.TurnID}},
			}
			return slices.Concat(textOutputs("a-"+c.TurnID, "Hm."), reasonedOutputs("r-"+c.TurnID, "Where?"), said,
				reasonedOutputs("s-"+c.TurnID, "There."), textOutputs("b-"+c.TurnID, "Here."), []bridge.Output{done()})
		}}
		h := newHarness(t, a)
		there := agui.NewFold(nil)
		for _, text := range []string{"one", "two"} {
			apply(t, there, h.chat(ask("t1", text)))
		}
		a.block = make(chan struct{})
		before := there.Messages()
		third := h.begin(ask("t1", "three"))
		anew := h.begin(bridge.ChatRequest{ThreadID: "t1", Dialect: dialect})
		again := h.begin(bridge.ChatRequest{ThreadID: "t1", Dialect: dialect})
		close(a.block)
		apply(t, there, third.rest(t))
		joined, back := agui.NewFold(nil), agui.NewFold(before)
		apply(t, joined, anew.rest(t))
		apply(t, back, again.rest(t))
		want := shown(there)
		if got := shown(joined); !slices.Equal(got, want) {
			t.Errorf("%s, with nothing:\n%q, want\n%q", dialect, got, want)
		}
		if got := shown(back); !slices.Equal(got, want) {
			t.Errorf("%s, with what it had:\n%q, want\n%q", dialect, got, want)
		}
	}
}

func reasonedOutputs(id, text string) []bridge.Output {
	return []bridge.Output{
		{Event: &agui.ReasoningMessageStart{MessageID: id}}, {Event: &agui.ReasoningMessageContent{MessageID: id, Delta: text}},
		{Event: &agui.ReasoningMessageEnd{MessageID: id}},
	}
}

func apply(t *testing.T, to *agui.Fold, events []string) {
	t.Helper()
	for _, event := range events {
		if err := to.ApplyJSON([]byte(event)); err != nil {
			t.Fatal(err)
		}
	}
}

// shown returns the messages that a client shows, in order.
func shown(f *agui.Fold) (list []string) {
	for _, m := range f.Messages() {
		list = append(list, m.Role+" "+m.ID+" "+m.Content.String()+string(m.Activity))
	}
	return list
}
