package agui_test

import (
	"testing"

	"aqueduct/agui"
)

const (
	firstHalf  = "\xED\xA0\xBD" // of 😀, as a jsontext.Fragment has it
	secondHalf = "\xED\xB8\x80"
)

// TestHalves: a character that two deltas share is joined, by message, and whatever is left
// of one when its message ends is U+FFFD.
func TestHalves(t *testing.T) {
	t.Parallel()
	text := func(id, d string) agui.Event { return &agui.TextMessageContent{MessageID: id, Delta: d} }
	for name, c := range map[string]struct {
		in   []agui.Event
		want []string
	}{
		"text":               {[]agui.Event{text("m", "a"+firstHalf), text("m", secondHalf+"b")}, []string{textDelta("m", "a"), textDelta("m", "😀b")}},
		"nothing but halves": {[]agui.Event{text("m", firstHalf), text("m", secondHalf)}, []string{textDelta("m", "😀")}},
		"reasoning": {[]agui.Event{&agui.ReasoningMessageContent{MessageID: "m", Delta: firstHalf}, &agui.ReasoningMessageContent{MessageID: "m", Delta: secondHalf}},
			[]string{`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"😀"}`}},
		"arguments": {[]agui.Event{&agui.ToolCallArgs{ToolCallID: "c", Delta: `{"a":"` + firstHalf}, &agui.ToolCallArgs{ToolCallID: "c", Delta: secondHalf + `"}`}},
			[]string{callArgs("c", `{\"a\":\"`), callArgs("c", `😀\"}`)}},
		"two messages at once": {[]agui.Event{text("m", firstHalf), text("n", firstHalf), text("m", secondHalf), text("n", secondHalf)},
			[]string{textDelta("m", "😀"), textDelta("n", "😀")}},
		"an end between": {[]agui.Event{text("m", "x"+firstHalf), &agui.TextMessageEnd{MessageID: "m"}, text("n", secondHalf)},
			[]string{textDelta("m", "x"), textDelta("m", "\uFFFD"), textEnd("m"), textDelta("n", "\uFFFD")}},
		"a run's end between": {[]agui.Event{text("m", "x"+firstHalf)}, []string{textDelta("m", "x"), textDelta("m", "\uFFFD")}},
		"a chunk that begins": {[]agui.Event{&agui.TextMessageChunk{MessageID: "m", Delta: firstHalf}, &agui.TextMessageChunk{MessageID: "m", Delta: secondHalf}},
			[]string{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"😀"}`}},
		"a chunk without an id": {[]agui.Event{&agui.TextMessageChunk{Delta: "x" + firstHalf}}, []string{`{"type":"TEXT_MESSAGE_CHUNK","delta":"x` + "\uFFFD" + `"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h agui.Halves
			var got []agui.Event
			for _, ev := range c.in {
				got = h.Join(got, ev)
			}
			got = h.Flush(got)
			if len(got) != len(c.want) {
				t.Fatalf("%d events, want %d", len(got), len(c.want))
			}
			for i, ev := range got {
				want, err := agui.Decode([]byte(c.want[i]))
				if err != nil {
					t.Fatal(err)
				}
				if g, w := string(ev.AppendJSON(nil)), string(want.AppendJSON(nil)); g != w {
					t.Errorf("got  %s\nwant %s", g, w)
				}
			}
		})
	}
}

// TestHalfIsOneReplacement: what is not joined is written as one U+FFFD, not as three.
func TestHalfIsOneReplacement(t *testing.T) {
	t.Parallel()
	if got := string(agui.AppendString(nil, "a"+firstHalf+"b\xff")); got != "\"a\uFFFDb\uFFFD\"" {
		t.Errorf("%q", got)
	}
}
