package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

func picture(id, content string) agui.Event {
	return &agui.ActivitySnapshot{MessageID: id, ActivityType: "plan", Content: json.RawMessage(content)}
}

func redraw(id, kind, patch string) agui.Event {
	return &agui.ActivityDelta{MessageID: id, ActivityType: kind, Patch: json.RawMessage(patch)}
}

// lines are the events of the given types, one a line.
func lines(events []string, wanted ...agui.Type) string {
	var out []string
	for _, e := range events {
		for _, w := range wanted {
			if agui.TypeOf([]byte(e)) == w {
				out = append(out, e)
			}
		}
	}
	return strings.Join(out, "\n")
}

func readStrictly(t *testing.T, events []string) *aguitest.Reader {
	t.Helper()
	r := aguitest.New()
	for _, e := range events {
		if err := r.Read([]byte(e)); err != nil {
			t.Errorf("%s: %v", e, err)
		}
	}
	return r
}

// TestActivitiesAreVerified: a patch that official clients would throw on or warn of is a
// warning of ours and the activity as it stands; the Run goes on.
func TestActivitiesAreVerified(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event  agui.Event
		reason string
		again  bool // the activity is shown again
	}{
		"null":             {redraw("a", "plan", `null`), agui.ActivityBadPatch, true},
		"a bad path":       {redraw("a", "plan", `[{"op":"add","path":"x","value":1}]`), agui.ActivityBadPatch, true},
		"a bad escape":     {redraw("a", "plan", `[{"op":"add","path":"/x~2","value":1}]`), agui.ActivityBadPatch, true},
		"does not apply":   {redraw("a", "plan", `[{"op":"remove","path":"/gone"}]`), agui.ActivityUnfitPatch, true},
		"another type":     {redraw("a", "chart", `[]`), agui.ActivityOtherType, true},
		"another activity": {redraw("b", "plan", `[]`), agui.ActivityUnknown, false},
		"grows too large":  {redraw("a", "plan", `[{"op":"add","path":"/x","value":"`+strings.Repeat("x", agui.MaxStateBytes)+`"}]`), agui.ActivityTooLarge, true},
		"drawn too large":  {picture("a", `{"x":"`+strings.Repeat("x", agui.MaxStateBytes)+`"}`), agui.ActivityTooLarge, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
				return append(outputs(picture("a", `{"n":9007199254740993}`), c.event, c.event, redraw("a", "plan", `[{"op":"add","path":"/ok","value":true}]`)), done())
			}})
			events := h.chat(ask("t1", "hi"))
			r := readStrictly(t, events)
			if r.Terminals() != 1 || agui.TypeOf([]byte(events[len(events)-1])) != agui.TypeRunFinished {
				t.Fatalf("ended with %s", events[len(events)-1])
			}
			id := "a"
			if c.reason == agui.ActivityUnknown {
				id = "b"
			}
			warning := `{"type":"CUSTOM","name":"activity_not_applied","value":{"messageId":"` + id + `","event":"` + string(c.event.EventType()) + `","code":"` + c.reason + `"}}`
			want := warning + "\n" + warning
			if c.again { // once, however often it does not apply
				want = warning + "\n" + string(picture("a", `{"n":9007199254740993}`).AppendJSON(nil)) + "\n" + warning
			}
			snapshots := strings.SplitN(lines(events, agui.TypeCustom, agui.TypeActivitySnapshot), "\n", 2)
			if len(snapshots) != 2 || snapshots[1] != want {
				t.Errorf("got  %s\nwant %s", snapshots, want)
			}
			if got := lines(h.log("t1"), agui.TypeActivityDelta); !strings.Contains(got, "/ok") || strings.Contains(got, "\n") {
				t.Errorf("deltas: %s", got)
			}
		})
	}
}

// TestAnActivityLivesOnInLaterRuns: after a question, and a restart, a patch still applies to
// what an earlier Run of the Turn showed, and the transcript has it.
func TestAnActivityLivesOnInLaterRuns(t *testing.T) {
	t.Parallel()
	agent := &scripted{script: func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if answers == nil {
			return append(outputs(picture("a", `{"n":1}`)), permission("q"), bridge.Output{End: &bridge.End{Pending: []string{"q"}}})
		}
		return append(outputs(redraw("a", "plan", `[{"op":"replace","path":"/n","value":2}]`), redraw("b", "plan", `[]`)), done())
	}}
	h := newHarness(t, agent)
	h.chat(ask("t1", "hi"))
	h.restart()
	h.chat(answer("t1", yes(h.approvals()[0].ID)))
	events := h.log("t1")
	if got := lines(events, agui.TypeCustom); strings.Count(got, "activity_not_applied") != 1 || !strings.Contains(got, `"messageId":"b"`) {
		t.Errorf("rejected: %s", got)
	}
	readStrictly(t, events)
	joined := h.chat(bridge.ChatRequest{ThreadID: "t1"})
	if got := lines(joined, agui.TypeMessagesSnapshot); !strings.Contains(got, `"activityType":"plan","content":{"n":2}`) {
		t.Errorf("the transcript has %s", got)
	}
}

// TestCharactersCutInTwoAreJoined, across deltas, and a half at the end is U+FFFD.
func TestCharactersCutInTwoAreJoined(t *testing.T) {
	t.Parallel()
	const first, second = "\xED\xA0\xBD", "\xED\xB8\x80"
	start, more := &agui.TextMessageStart{MessageID: "m", Role: "assistant"}, func(s string) agui.Event {
		return &agui.TextMessageContent{MessageID: "m", Delta: s}
	}
	h := newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		return append(outputs(start, more("a"+first), more(second+"b"), more(first)), done())
	}})
	events := h.chat(ask("t1", "hi"))
	r := readStrictly(t, events)
	messages := r.Messages()
	if got := messages[len(messages)-1].Content.Text; got != "a😀b\uFFFD" {
		t.Errorf("%q", got)
	}
}

// TestNullStateTakesPatches: official clients could not apply one to null.
func TestNullStateTakesPatches(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		return append(outputs(&agui.StateSnapshot{Snapshot: json.RawMessage(`null`)},
			&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/a","value":1}]`)}), done())
	}})
	events := h.chat(ask("t1", "hi"))
	readStrictly(t, events)
	if got := lines(events, agui.TypeStateSnapshot); strings.Contains(got, "null") || !strings.Contains(got, `"snapshot":{}`) {
		t.Error(got)
	}
	if got := lines(events, agui.TypeStateDelta); !strings.Contains(got, `"/a"`) {
		t.Error(got)
	}
}
