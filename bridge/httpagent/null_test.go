package httpagent

import (
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/bridge"
)

// translated are the outputs of frames, "event data" each.
func translated(t *testing.T, frames ...string) []bridge.Output {
	t.Helper()
	tr := newTranslator("turn", newID)
	var out []bridge.Output
	for _, f := range frames {
		name, data, _ := strings.Cut(f, " ")
		var err error
		if out, err = tr.translate(out, frame{name, []byte(data)}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	return out
}

// TestNullIsLeftOut: null is what serializers write for a member that is not set.
func TestNullIsLeftOut(t *testing.T) {
	t.Parallel()
	out := translated(t, `tool_call {"id":"1","name":"f","args":null}`, `activity {"id":"a","type":"p","content":{"n":1},"patch":null}`,
		`ask {"id":"q","kind":"input","args":null,"response_schema":null}`, `call_client_tool {"id":"c","name":"g","args":null}`)
	r := aguitest.New()
	for _, ev := range append([]agui.Event{&agui.RunStarted{ThreadID: "t", RunID: "r"}}, eventsIn(out)...) {
		if err := r.Read(ev.AppendJSON(nil)); err != nil {
			t.Error(err)
		}
	}
	if args, ok := out[1].Event.(*agui.ToolCallArgs); !ok || args.Delta != "{}" {
		t.Errorf("%+v", out[1].Event)
	}
	if _, ok := out[3].Event.(*agui.ActivitySnapshot); !ok {
		t.Errorf("%+v", out[3].Event)
	}
	for _, o := range out[4:] {
		if o.Question == nil || o.Question.Args != nil || o.Question.ResponseSchema != nil {
			t.Errorf("%+v", o.Question)
		}
	}
}

func eventsIn(out []bridge.Output) (events []agui.Event) {
	for _, o := range out {
		if o.Event != nil {
			events = append(events, o.Event)
		}
	}
	return events
}

// TestHalvesOfCharactersAreKept checks that a character cut between two deltas is kept in halves, which the reader joins.
func TestHalvesOfCharactersAreKept(t *testing.T) {
	t.Parallel()
	var h agui.Halves
	var text, thought string
	for _, ev := range eventsIn(translated(t, `delta {"text":"a\ud83d"}`, `delta {"text":"\ude00"}`, `thought {"text":"\ud83d"}`, `thought {"text":"\ude01b"}`)) {
		for _, whole := range h.Join(nil, ev) {
			switch e := whole.(type) {
			case *agui.TextMessageContent:
				text += e.Delta
			case *agui.ReasoningMessageContent:
				thought += e.Delta
			}
		}
	}
	if text != "a😀" || thought != "😁b" {
		t.Errorf("%q %q", text, thought)
	}
}
