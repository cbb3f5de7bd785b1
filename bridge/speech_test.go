package bridge

import (
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge/redact"
)

// passing collects what a speech passes on.
func passing(t *testing.T, s *speech, events ...agui.Event) (passed []agui.Event) {
	t.Helper()
	for _, ev := range events {
		if err := s.each(ev, func(ev agui.Event) error { passed = append(passed, ev); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return passed
}

func thought(id string) []agui.Event {
	return []agui.Event{&agui.ReasoningStart{MessageID: id}, &agui.ReasoningMessageStart{MessageID: id}}
}

// If this fails, what an agent adds after a question is lost, or is put into a message that every client has closed.
func TestAMessageThatARunClosedGoesOnUnderANewID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closed []agui.Event // the starts of what the Run left open
		after  []agui.Event
		want   string
	}{
		"text": {
			[]agui.Event{textStart("m")},
			[]agui.Event{textDelta("m", "a"), textDelta("m", "b"), textEnd("m")},
			"TEXT_MESSAGE_START #1\nTEXT_MESSAGE_CONTENT #1 'a'\nTEXT_MESSAGE_CONTENT #1 'b'\nTEXT_MESSAGE_END #1",
		},
		"only the end is left": {[]agui.Event{textStart("m")}, []agui.Event{textEnd("m")}, ""},
		"another message": {
			[]agui.Event{textStart("m")},
			[]agui.Event{textStart("n"), textDelta("n", "x"), textEnd("n")},
			"TEXT_MESSAGE_START n\nTEXT_MESSAGE_CONTENT n 'x'\nTEXT_MESSAGE_END n",
		},
		"the id is used again later": {
			[]agui.Event{textStart("m")},
			[]agui.Event{textDelta("m", "a"), textEnd("m"), textStart("m"), textDelta("m", "b"), textEnd("m")},
			"TEXT_MESSAGE_START #1\nTEXT_MESSAGE_CONTENT #1 'a'\nTEXT_MESSAGE_END #1\nTEXT_MESSAGE_START m\nTEXT_MESSAGE_CONTENT m 'b'\nTEXT_MESSAGE_END m",
		},
		"thought": {
			thought("t"),
			[]agui.Event{&agui.ReasoningMessageContent{MessageID: "t", Delta: "a"}, &agui.ReasoningMessageEnd{MessageID: "t"}, &agui.ReasoningEnd{MessageID: "t"}},
			"REASONING_START #1\nREASONING_MESSAGE_START #1\nREASONING_MESSAGE_CONTENT #1 'a'\nREASONING_MESSAGE_END #1\nREASONING_END #1",
		},
		"a thought that is over": {
			thought("t"), []agui.Event{&agui.ReasoningMessageEnd{MessageID: "t"}, &agui.ReasoningEnd{MessageID: "t"}}, "",
		},
		"nothing was open": {nil, []agui.Event{textStart("m"), textDelta("m", "a")}, "TEXT_MESSAGE_START m\nTEXT_MESSAGE_CONTENT m 'a'"},
	} {
		var s speech
		passing(t, &s, c.closed...)
		s.continuations.remember(c.closed)
		if got := brief(passing(t, &s, c.after...)...); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// If this fails, a message that three Runs interrupt goes on under an id that an earlier Run has closed.
func TestAMessageGoesOnThroughSeveralRuns(t *testing.T) {
	t.Parallel()
	var s speech
	ids := map[string]bool{"m": true}
	s.continuations.remember([]agui.Event{&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant, Name: "bob"}})
	for range 3 {
		passed := passing(t, &s, textDelta("m", "x"))
		if len(passed) != 2 {
			t.Fatalf("the message goes on with %s", brief(passed...))
		}
		start := passed[0].(*agui.TextMessageStart)
		if ids[start.MessageID] || start.Name != "bob" || start.Role != agui.RoleAssistant {
			t.Errorf("it begins again as %+v", start)
		}
		if id := passed[1].(*agui.TextMessageContent).MessageID; id != start.MessageID {
			t.Errorf("its text goes to %q, not to %q", id, start.MessageID)
		}
		ids[start.MessageID] = true
		s.continuations.remember([]agui.Event{start})
	}
	if left := passing(t, &s, textEnd("m")); len(left) != 0 {
		t.Errorf("a message that is closed is ended by %s", brief(left...))
	}
}

// If this fails, an agent that keeps and repeats its events repeats them under ids that only this server knows.
func TestTheAgentsOwnEventStaysAsItIs(t *testing.T) {
	t.Parallel()
	var s speech
	s.masking.filter = redact.Forms()
	s.continuations.remember([]agui.Event{textStart("m")})
	ev := &agui.TextMessageContent{MessageID: "m", Delta: "ghp_16C7e42F292c6912E7710c838347Ae178B4a."}
	passed := passing(t, &s, ev)
	if len(passed) == 0 || strings.Contains(brief(passed...), "16C7e42") {
		t.Fatalf("passed on is %s", brief(passed...))
	}
	if ev.MessageID != "m" || ev.Delta != "ghp_16C7e42F292c6912E7710c838347Ae178B4a." {
		t.Errorf("the event has become %+v", ev)
	}
}

// If this fails, a Turn that a restarted server takes up between two Runs ends with a protocol error at its next delta.
func TestAMessageFromBeforeARestartIsBegunAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after []agui.Event
		want  string
	}{
		"text":       {[]agui.Event{textDelta("m", "a"), textEnd("m")}, "TEXT_MESSAGE_START #1\nTEXT_MESSAGE_CONTENT #1 'a'\nTEXT_MESSAGE_END #1"},
		"text's end": {[]agui.Event{textEnd("m")}, ""},
		"thought": {
			[]agui.Event{&agui.ReasoningMessageContent{MessageID: "t", Delta: "a"}},
			"REASONING_START #1\nREASONING_MESSAGE_START #1\nREASONING_MESSAGE_CONTENT #1 'a'",
		},
		"thought's ends": {[]agui.Event{&agui.ReasoningMessageEnd{MessageID: "t"}, &agui.ReasoningEnd{MessageID: "t"}}, ""},
		"a call's rest": {
			[]agui.Event{&agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"}, &agui.ToolCallEnd{ToolCallID: "c"}}, "",
		},
		"a new call": {
			[]agui.Event{&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"}, &agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"}, &agui.ToolCallEnd{ToolCallID: "c"}},
			"TOOL_CALL_START c\nTOOL_CALL_ARGS c '{}'\nTOOL_CALL_END c",
		},
		"a new text": {[]agui.Event{textStart("m"), textDelta("m", "a")}, "TEXT_MESSAGE_START m\nTEXT_MESSAGE_CONTENT m 'a'"},
	} {
		s := speech{continuations: continuations{resumed: true}}
		if got := brief(passing(t, &s, c.after...)...); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// If this fails, an agent that writes one key in several deltas shows it to every reader of the thread.
func TestASecretInSeveralDeltasIsMasked(t *testing.T) {
	t.Parallel()
	const begin, rest, secret = "key ghp_16C7e42F292c", "6912E7710c838347Ae178B4a end", "16C7e42F292c"
	for name, c := range map[string]struct {
		events []agui.Event
		text   func(agui.Event) string
	}{
		"text": {
			[]agui.Event{textStart("m"), textDelta("m", begin), textDelta("m", rest), textEnd("m")},
			func(ev agui.Event) string {
				if e, ok := ev.(*agui.TextMessageContent); ok {
					return e.Delta
				}
				return ""
			},
		},
		"thought": {
			[]agui.Event{
				&agui.ReasoningMessageContent{MessageID: "m", Delta: begin}, &agui.ReasoningMessageContent{MessageID: "m", Delta: rest},
				&agui.ReasoningMessageEnd{MessageID: "m"},
			},
			func(ev agui.Event) string {
				if e, ok := ev.(*agui.ReasoningMessageContent); ok {
					return e.Delta
				}
				return ""
			},
		},
		"arguments": {
			[]agui.Event{
				&agui.ToolCallArgs{ToolCallID: "c", Delta: begin}, &agui.ToolCallArgs{ToolCallID: "c", Delta: rest}, &agui.ToolCallEnd{ToolCallID: "c"},
			},
			func(ev agui.Event) string {
				if e, ok := ev.(*agui.ToolCallArgs); ok {
					return e.Delta
				}
				return ""
			},
		},
		"chunks, the second without an id": {
			[]agui.Event{
				&agui.TextMessageChunk{MessageID: "m", Delta: begin}, &agui.TextMessageChunk{Delta: rest}, textEnd("m"),
			},
			func(ev agui.Event) string {
				switch e := ev.(type) {
				case *agui.TextMessageChunk:
					return e.Delta
				case *agui.TextMessageContent:
					return e.Delta
				}
				return ""
			},
		},
	} {
		m := masking{filter: redact.Forms()}
		var shown strings.Builder
		for _, ev := range c.events {
			for _, out := range m.on(ev) {
				shown.WriteString(c.text(out))
			}
		}
		if want := "key ghp_" + redact.Mask + " end"; shown.String() != want || strings.Contains(shown.String(), secret) {
			t.Errorf("%s: shown is %q, want %q", name, shown.String(), want)
		}
		if len(m.streams) != 0 {
			t.Errorf("%s: %d ended messages are kept", name, len(m.streams))
		}
	}
}

// If this fails, two messages that are written at once mix their texts, or mask what is no secret.
func TestEachMessageIsMaskedByItself(t *testing.T) {
	t.Parallel()
	m := masking{filter: redact.Forms()}
	var shown []agui.Event
	for _, ev := range []agui.Event{textDelta("a", "ghp_16C7e42F292c"), textDelta("b", "6912E7710c838347Ae178B4a "), textEnd("a"), textEnd("b")} {
		shown = append(shown, m.on(ev)...)
	}
	text := map[string]string{}
	for _, ev := range shown {
		if e, ok := ev.(*agui.TextMessageContent); ok {
			text[e.MessageID] += e.Delta
		}
	}
	if text["a"] != "ghp_16C7e42F292c" || text["b"] != "6912E7710c838347Ae178B4a " {
		t.Errorf("shown is %q", text)
	}
}

// If this fails, the last word of an answer is missing where it looks like the beginning of a secret.
func TestWhatIsHeldBackIsShownAtTheTurnsEnd(t *testing.T) {
	t.Parallel()
	s := speech{masking: masking{filter: redact.Forms()}}
	held := passing(t, &s, textStart("m"), textDelta("m", "the prefix is ghp_16C7e42F29"))
	var rest []agui.Event
	s.endTurn(func(ev agui.Event) error { rest = append(rest, ev); return nil })
	var text strings.Builder
	for _, ev := range append(held[1:], rest...) {
		text.WriteString(ev.(*agui.TextMessageContent).Delta)
	}
	if text.String() != "the prefix is ghp_16C7e42F29" || len(rest) == 0 {
		t.Errorf("shown is %q, %d events of it at the end", text.String(), len(rest))
	}
	if more := s.masking.rest(); len(more) != 0 {
		t.Errorf("shown a second time: %s", brief(more...))
	}
}

// If this fails, an emoji that an agent cut in two is lost or doubled when a question ends the Run between its halves.
func TestAHalfCharacterIsShownAtTheRunsEnd(t *testing.T) {
	t.Parallel()
	const firstHalf = "\xED\xA0\xBD" // of an emoji in UTF-16, as an agent in JavaScript cuts it
	var s speech
	passed := passing(t, &s, textStart("m"), textDelta("m", "ok "+firstHalf))
	s.endRun(func(ev agui.Event) error { passed = append(passed, ev); return nil })
	if got := brief(passed...); got != "TEXT_MESSAGE_START m\nTEXT_MESSAGE_CONTENT m 'ok '\nTEXT_MESSAGE_CONTENT m '\uFFFD'" {
		t.Errorf("shown is\n%s", got)
	}
	s.endRun(func(ev agui.Event) error { t.Errorf("shown a second time: %s", brief(ev)); return nil })
}

// If this fails, a page cannot see which agent wrote a message, or the user's own messages carry an agent's name.
func TestMessagesCarryTheirAuthor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		author string
		start  agui.TextMessageStart
		want   string
	}{
		"an agent that was addressed": {"bob", agui.TextMessageStart{Role: agui.RoleAssistant}, "bob"},
		"no role means assistant":     {"bob", agui.TextMessageStart{}, "bob"},
		"it has a name":               {"bob", agui.TextMessageStart{Role: agui.RoleAssistant, Name: "ann"}, "ann"},
		"another role":                {"bob", agui.TextMessageStart{Role: "developer"}, ""},
		"the thread's own agent":      {"", agui.TextMessageStart{Role: agui.RoleAssistant}, ""},
	} {
		s := speech{author: c.author}
		given := c.start
		given.MessageID = "m"
		before := given
		passed := passing(t, &s, &given)
		if got := passed[0].(*agui.TextMessageStart).Name; got != c.want || given.Name != before.Name {
			t.Errorf("%s: the message is %q's, want %q; the agent's own event has %q", name, got, c.want, given.Name)
		}
	}
}

// If this fails, the engine writes on after the log or the grammar has refused an event.
func TestARefusalEndsTheSpeech(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	s := speech{masking: masking{filter: redact.Forms()}}
	s.continuations.remember([]agui.Event{textStart("m")})
	calls := 0
	err := s.each(textDelta("m", "x "), func(agui.Event) error { calls++; return refused })
	if !errors.Is(err, refused) || calls != 1 {
		t.Errorf("%v after %d events", err, calls)
	}
}
