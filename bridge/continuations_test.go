package bridge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
)

// TestAMessageGoesOnAfterTheQuestion: an upstream asks within a message, a thought or a text,
// and goes on with it while it waits, after the answer, and once more after another. What it
// says is kept in the order in which it said it, each Run's part as a message of its own.
func TestAMessageGoesOnAfterTheQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, end []agui.Event
		more       func(s string) agui.Event
		part       string
	}{
		"text": {
			[]agui.Event{&agui.TextMessageStart{MessageID: "m", Role: "assistant"}}, []agui.Event{&agui.TextMessageEnd{MessageID: "m"}},
			func(s string) agui.Event { return &agui.TextMessageContent{MessageID: "m", Delta: s} },
			"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END ",
		},
		"thought": {
			[]agui.Event{&agui.ReasoningStart{MessageID: "m"}, &agui.ReasoningMessageStart{MessageID: "m"}},
			[]agui.Event{&agui.ReasoningMessageEnd{MessageID: "m"}, &agui.ReasoningEnd{MessageID: "m"}},
			func(s string) agui.Event { return &agui.ReasoningMessageContent{MessageID: "m", Delta: s} },
			"REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_END ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHeld()
			h := newHeldHarness(t, a, soon(), nil)
			a.emit("asked", append(outputs(append(c.begin, c.more("one "))...), permission("q0"))...)
			h.chat(ask("t1", "hi"))
			for i, words := range [][2]string{{"two ", "three "}, {"four ", "five "}} {
				h.until("asked")
				a.emit("parked", outputs(c.more(words[0]))...)
				h.until("parked")
				h.resting("t1")
				going, _ := h.post(answer("t1", yes(h.approvals()[i].ID)))
				receive(h, a.told)
				last := outputs(append([]agui.Event{c.more(words[1])}, c.end...)...)
				want := resulted + c.part + "RUN_FINISHED"
				if i == 0 {
					last = append(outputs(c.more(words[1])), permission("q1"))
					want = resulted + c.part + "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED"
				} else {
					last = append(last, done())
				}
				a.emit("asked", last...)
				if got := types(going.rest(t)); got != want {
					t.Fatalf("got %s", got)
				}
			}
			rows, err := h.store.Messages(t.Context(), store.System(), h.session("t1").ID, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, row := range rows {
				var m struct{ Content any }
				if err := json.Unmarshal(row.Data, &m); err != nil {
					t.Fatal(err)
				}
				if s, ok := m.Content.(string); ok && row.Role != "tool" && row.Role != "user" && s != "" {
					said = append(said, s)
				}
			}
			if want := []string{"one ", "two ", "three ", "four ", "five "}; !slices.Equal(said, want) {
				t.Errorf("the transcript has %q of %s", said, strings.Join(h.log("t1"), "\n"))
			}
		})
	}
}

func outputs(events ...agui.Event) (out []bridge.Output) {
	for _, ev := range events {
		out = append(out, bridge.Output{Event: ev})
	}
	return out
}
