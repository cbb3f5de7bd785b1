package bridge

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"aqueduct/agui"
)

// escapeGrowth is how much longer a text may get when it is encoded: a control character
// becomes six bytes.
const escapeGrowth = 6

// pieces brings an event that is too large under the limit: text becomes several deltas,
// a tool's result is cut and says so, anything else becomes a mark in its place.
func pieces(ev agui.Event, limit int) []agui.Event {
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
		cut.Content = agui.Text(fmt.Sprintf("%s\n[cut: %d of %d bytes shown]", head(text, size), min(size, len(text)), len(text)))
		return []agui.Event{&cut}
	case *agui.RunError:
		cut := *e
		cut.Message = head(e.Message, size)
		return []agui.Event{&cut}
	case *agui.RunFinished:
		cut := *e
		cut.Result = json.RawMessage(`{"cut":true}`)
		return []agui.Event{&cut}
	case *agui.RunStarted:
		cut := *e
		cut.Input = nil
		return []agui.Event{&cut}
	}
	value := mustJSON(struct {
		Type  string `json:"type"`
		Limit int    `json:"limit"`
	}{string(ev.EventType()), limit})
	return []agui.Event{&agui.Custom{Name: "event_too_large", Value: value}}
}

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
