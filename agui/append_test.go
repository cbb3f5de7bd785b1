package agui_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"aqueduct/agui"
)

func TestTextDeltaDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	ev := &agui.TextMessageContent{MessageID: "0197a3b2-msg", Delta: "some words, \"quoted\",\nand 中文"}
	var e agui.Event = ev
	if n := testing.AllocsPerRun(100, func() { buf = e.AppendJSON(buf[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = agui.TypeOf(buf); _ = agui.IsTerminal(buf) }); n != 0 {
		t.Errorf("TypeOf: %v allocations", n)
	}
}

func TestNoTextBreaksALine(t *testing.T) {
	t.Parallel()
	nasty := "a\r\nb\x00\x1f\u2028c\u2029\"\\\xff\xc3(d\tend\u007f"
	for _, ev := range []agui.Event{
		&agui.TextMessageContent{MessageID: nasty, Delta: nasty},
		&agui.RunError{Message: nasty, Code: nasty},
		&agui.Custom{Name: nasty, Value: json.RawMessage("{\r\n \"a\" : [ 1 ,\t2 ]\n}")},
		&agui.Custom{Name: "broken", Value: json.RawMessage("not\njson " + nasty)},
		&agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: agui.Content{Parts: []agui.ContentPart{{Type: "x", Raw: json.RawMessage("{\n}")}}}},
	} {
		line := ev.AppendJSON(nil)
		if strings.ContainsAny(string(line), "\r\n\x00\u2028\u2029") || !utf8.Valid(line) || !json.Valid(line) {
			t.Errorf("%q", line)
		}
	}
	got := string((&agui.RunError{Message: nasty}).AppendJSON(nil))
	want := `{"type":"RUN_ERROR","message":"a\r\nb\u0000\u001f\u2028c\u2029\"\\` + "\uFFFD\uFFFD(d" + `\tend` + "\u007f" + `"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRawJSONKeepsItsBytes(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage("{ \"n\": 9007199254740993, \"e\": 1.50e+2,\n \"s\": \"two  spaces \\u00e9 \\\" <&>\" }")
	got := string((&agui.StateSnapshot{Snapshot: raw}).AppendJSON(nil))
	want := `{"type":"STATE_SNAPSHOT","snapshot":{"n":9007199254740993,"e":1.50e+2,"s":"two  spaces \u00e9 \" <&>"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequiredJSONThatIsAbsent(t *testing.T) {
	t.Parallel()
	for want, ev := range map[string]agui.Event{
		`{"type":"STATE_SNAPSHOT","snapshot":null}`:                                                             &agui.StateSnapshot{},
		`{"type":"STATE_DELTA","delta":[]}`:                                                                     &agui.StateDelta{},
		`{"type":"CUSTOM","name":"n","value":null}`:                                                             &agui.Custom{Name: "n"},
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"t","content":{}}`:                          &agui.ActivitySnapshot{MessageID: "a", ActivityType: "t"},
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"activity","activityType":"","content":{}}]}`: &agui.MessagesSnapshot{Messages: []agui.Message{{ID: "a", Role: agui.RoleActivity}}},
	} {
		if got := string(ev.AppendJSON(nil)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func BenchmarkTextDelta(b *testing.B) {
	buf := make([]byte, 0, 1024)
	ev := &agui.TextMessageContent{MessageID: "0197a3b2-6c1d-7e10-9f3b-1d2c3b4a5f60", Delta: "A dozen words or so, as a model sends them in one go."}
	b.ReportAllocs()
	for b.Loop() {
		buf = agui.AppendFrame(buf[:0], 12345, ev.AppendJSON(buf[512:512]))
	}
}

func BenchmarkAdmitTextDelta(b *testing.B) {
	g := runningGrammar(b)
	var dst []agui.Event
	dst, _ = g.Admit(dst, &agui.TextMessageStart{MessageID: "m"})
	ev := &agui.TextMessageContent{MessageID: "m", Delta: "words"}
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = g.Admit(dst[:0], ev)
	}
}
