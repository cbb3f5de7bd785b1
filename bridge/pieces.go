package bridge

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"aqueduct/agui"
)

// escapeGrowth is how much longer a text may get when it is encoded: a control character
// becomes six bytes.
const escapeGrowth = 6

// nameBytes bounds a name, a title or a code in an event that was too large.
const nameBytes = 256

// loses reports whether pieces leaves out of an event what its reader may want. Texts are all there, the messages of
// RUN_STARTED are kept as such, and of names and errors the beginning is enough.
func loses(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.TextMessageContent, *agui.ReasoningMessageContent, *agui.ToolCallArgs, *agui.StateSnapshot, *agui.RunStarted,
		*agui.RunError, *agui.ToolCallStart, *agui.StepStarted, *agui.StepFinished:
		return false
	case *agui.RunFinished:
		return e.Result != nil
	}
	return true
}

// pieces brings an event that is too large under the limit: text becomes several deltas,
// a tool's result is cut and marked as cut, what opens or ends something keeps its place with
// less in it, anything else becomes a mark. key names the entry of the context store that has the whole; "" is none.
func pieces(ev agui.Event, limit int, key string) []agui.Event {
	// 512 bytes are left for the members beside the text.
	size := limit/escapeGrowth - 512
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		return split(e.Delta, size, func(s string) agui.Event {
			return &agui.TextMessageContent{Sub: e.Sub, MessageID: e.MessageID, Delta: s}
		})
	case *agui.ReasoningMessageContent:
		return split(e.Delta, size, func(s string) agui.Event {
			return &agui.ReasoningMessageContent{Sub: e.Sub, MessageID: e.MessageID, Delta: s}
		})
	case *agui.ToolCallArgs:
		return split(e.Delta, size, func(s string) agui.Event {
			return &agui.ToolCallArgs{Sub: e.Sub, ToolCallID: e.ToolCallID, Delta: s}
		})
	case *agui.ToolCallResult:
		text := e.Content.String()
		cut := *e
		whole := ""
		if key != "" {
			whole = "; the whole event is in the context store, context_key " + key
		}
		cut.Content = agui.Text(fmt.Sprintf("%s\n[cut: %d of %d bytes shown%s]", head(text, size), min(size, len(text)), len(text), whole))
		return []agui.Event{&cut}
	case *agui.RunError:
		cut := *e
		cut.Message, cut.Code, cut.Usage = head(e.Message, size), head(e.Code, nameBytes), nil
		return []agui.Event{&cut}
	case *agui.RunFinished:
		return []agui.Event{smaller(*e, key)}
	case *agui.StateSnapshot:
		return []agui.Event{e}
	case *agui.ToolCallStart:
		cut := *e
		cut.ToolCallName = head(e.ToolCallName, nameBytes)
		return []agui.Event{&cut}
	case *agui.StepStarted:
		cut := *e
		cut.StepName = head(e.StepName, nameBytes)
		return []agui.Event{&cut}
	case *agui.StepFinished:
		cut := *e
		cut.StepName = head(e.StepName, nameBytes)
		return []agui.Event{&cut}
	case *agui.RunStarted:
		cut := *e
		cut.Input = nil
		return []agui.Event{&cut}
	}
	value := mustJSON(struct {
		Type       string `json:"type"`
		Limit      int    `json:"limit"`
		ContextKey string `json:"context_key,omitempty"`
	}{string(ev.EventType()), limit, key})
	return []agui.Event{&agui.Custom{Name: "event_too_large", Value: value}}
}

// smaller is a Run's end without what an Agent wrote into it, but for the questions.
// The interrupts stay whole but for their schemas, because a client that does not get them cannot answer and the Turn
// would wait until they expire.
func smaller(end agui.RunFinished, key string) *agui.RunFinished {
	end.Usage, end.Metadata = nil, nil // questions in the metadata are named by the CUSTOM on_interrupt before
	if end.Result != nil {
		end.Result = mustJSON(struct {
			Cut        bool   `json:"cut"`
			ContextKey string `json:"context_key,omitempty"`
		}{true, key})
	}
	if end.Outcome != nil {
		outcome := *end.Outcome
		outcome.Interrupts = slices.Clone(outcome.Interrupts)
		for i := range outcome.Interrupts {
			outcome.Interrupts[i].ResponseSchema = nil
		}
		end.Outcome = &outcome
	}
	return &end
}

// split makes deltas of a text that is too long for one. Characters stay whole: each delta is encoded by itself, and
// half a character cannot be.
func split(text string, size int, make func(string) agui.Event) []agui.Event {
	var events []agui.Event
	for len(text) > 0 {
		part := head(text, size)
		events = append(events, make(part))
		text = text[len(part):]
	}
	return events
}

// head is the longest prefix of at most size bytes that does not cut a character.
func head(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
