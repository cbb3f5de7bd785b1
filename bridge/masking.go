package bridge

import (
	"aqueduct/agui"
	"aqueduct/bridge/redact"
)

// masking takes secrets out of the messages of a Turn's Agent, which come in deltas. Each open message has a Stream of its
// own, under the Agent's id of it, so that a secret that is cut by the end of a Run, or whose message goes on under
// another id in the next one, is found too. What a Stream holds back is the beginning of what may be a secret; a crash
// loses it.
type masking struct {
	filter  *redact.Filter
	streams map[started]*maskedText
	chunks  map[agui.Type]string // the message that a chunk without an id goes on with
}

type maskedText struct {
	redact.Stream
	sub agui.Sub
}

// on is an event with its delta as far as that may be shown: nothing when all of it is held back, and what is left of a
// message before its end.
// Chunks have the same text as deltas and may leave out the id of the message they go on with, so the last id of each
// kind is remembered.
func (m *masking) on(ev agui.Event) []agui.Event {
	if m.filter == nil {
		return []agui.Event{ev}
	}
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		return masked(m, e, started{agui.TypeTextMessageStart, e.MessageID}, e.Sub, &e.Delta, false)
	case *agui.ReasoningMessageContent:
		return masked(m, e, started{agui.TypeReasoningMessageStart, e.MessageID}, e.Sub, &e.Delta, false)
	case *agui.ToolCallArgs:
		return masked(m, e, started{agui.TypeToolCallStart, e.ToolCallID}, e.Sub, &e.Delta, false)
	case *agui.TextMessageChunk:
		return masked(m, e, m.chunk(agui.TypeTextMessageStart, e.MessageID), e.Sub, &e.Delta, true)
	case *agui.ReasoningMessageChunk:
		return masked(m, e, m.chunk(agui.TypeReasoningMessageStart, e.MessageID), e.Sub, &e.Delta, true)
	case *agui.ToolCallChunk:
		return masked(m, e, m.chunk(agui.TypeToolCallStart, e.ToolCallID), e.Sub, &e.Delta, true)
	case *agui.TextMessageEnd:
		return append(m.end(started{agui.TypeTextMessageStart, e.MessageID}), ev)
	case *agui.ReasoningMessageEnd:
		return append(m.end(started{agui.TypeReasoningMessageStart, e.MessageID}), ev)
	case *agui.ToolCallEnd:
		return append(m.end(started{agui.TypeToolCallStart, e.ToolCallID}), ev)
	}
	return []agui.Event{ev}
}

// masked passes a delta through its message's Stream. The event itself is another's and stays as it is; a chunk also
// begins a message, and so is passed on without text.
// Where nothing is hidden the event goes on as it came, without a copy: that is every delta but a few. The new text is
// put in for the length of a copy, because the generic form can write to the field only through its pointer.
func masked[E any, P interface {
	*E
	agui.Event
}](m *masking, ev P, of started, sub agui.Sub, delta *string, chunk bool) []agui.Event {
	s := m.streams[of]
	if s == nil {
		if m.streams == nil {
			m.streams = make(map[started]*maskedText)
		}
		s = &maskedText{}
		m.streams[of] = s
	}
	s.sub = agui.Sub{SubagentRunID: sub.SubagentRunID}
	whole := *delta
	shown := s.Push(m.filter, whole)
	if shown == whole {
		return []agui.Event{ev}
	}
	if shown == "" && !chunk {
		return nil
	}
	*delta = shown
	again := *ev
	*delta = whole
	return []agui.Event{P(&again)}
}

// chunk is the message that a chunk is of.
func (m *masking) chunk(by agui.Type, id string) started {
	if m.chunks == nil {
		m.chunks = make(map[agui.Type]string)
	}
	if id != "" {
		m.chunks[by] = id
	}
	return started{by, m.chunks[by]}
}

// end is what is left of a message that ends.
func (m *masking) end(of started) []agui.Event {
	s := m.streams[of]
	delete(m.streams, of)
	if s == nil {
		return nil
	}
	left := s.End(m.filter)
	if left == "" {
		return nil
	}
	switch of.by {
	case agui.TypeTextMessageStart:
		return []agui.Event{&agui.TextMessageContent{Sub: s.sub, MessageID: of.id, Delta: left}}
	case agui.TypeReasoningMessageStart:
		return []agui.Event{&agui.ReasoningMessageContent{Sub: s.sub, MessageID: of.id, Delta: left}}
	}
	return []agui.Event{&agui.ToolCallArgs{Sub: s.sub, ToolCallID: of.id, Delta: left}}
}

// rest is what is left of all messages: the Turn is over.
// A secret cannot go on in a Turn that is over, so what was held back is shown, masked if it is one after all.
func (m *masking) rest() (left []agui.Event) {
	for of := range m.streams {
		left = append(left, m.end(of)...)
	}
	return left
}
