// This file sees events as what they do to one item: a text, a tool call, a thought, a span of
// reasoning. The grammar's rules are the same for all of these, so nothing behind this file looks at
// the events one by one.

package agui

// kind is what an item is. Ids are unique within a kind.
type kind uint8

const (
	kindText kind = iota
	kindTool
	kindThought
	kindSpan
	kindStep
	kindAgent
	kindActivity // is never open; it has owners only
)

// item is something that is started and has to be ended.
type item struct {
	kind  kind
	id    string // a step's is its name
	owner string // the subagent it belongs to, "" for the run itself
	name  string // a text's role, a call's tool
	extra string // a text's name, a call's parent message, a thought's span
	chunk bool   // opened by a chunk, so anything else in its lane ends it
}

// act is what an event does to its item.
type act uint8

const (
	actNone act = iota // it concerns no single item, or a step or subagent
	actBegin
	actContinue
	actEnd
	actChunk // begins, continues and ends in one
)

// move is an event's effect on one item. The item is described by the event alone: what the grammar
// knows of an open item may be more. owner is the event's own tag, which may be empty though the
// item has an owner; the open item, not the move, knows whom it belongs to.
type move struct {
	item
	act   act
	base  *Base
	delta string
}

// moveOf reads an event.
func moveOf(ev Event) move {
	switch e := ev.(type) {
	case *TextMessageContent:
		return move{item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID}, actContinue, &e.Base, e.Delta}
	case *ToolCallArgs:
		return move{item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID}, actContinue, &e.Base, e.Delta}
	case *ReasoningMessageContent:
		return move{item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID}, actContinue, &e.Base, e.Delta}
	case *TextMessageStart:
		return move{item: item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID, name: e.Role, extra: e.Name}, act: actBegin}
	case *ToolCallStart:
		return move{item: item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID, name: e.ToolCallName, extra: e.ParentMessageID}, act: actBegin}
	case *ReasoningMessageStart:
		return move{item: item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID}, act: actBegin}
	case *ReasoningStart:
		return move{item: item{kind: kindSpan, id: e.MessageID, owner: e.SubagentRunID}, act: actBegin}
	case *TextMessageEnd:
		return move{item: item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID}, act: actEnd}
	case *ToolCallEnd:
		return move{item: item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID}, act: actEnd}
	case *ReasoningMessageEnd:
		return move{item: item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID}, act: actEnd}
	case *ReasoningEnd:
		return move{item: item{kind: kindSpan, id: e.MessageID, owner: e.SubagentRunID}, act: actEnd}
	case *TextMessageChunk:
		return move{item{kind: kindText, id: e.MessageID, owner: e.SubagentRunID, name: e.Role, extra: e.Name}, actChunk, &e.Base, e.Delta}
	case *ToolCallChunk:
		return move{item{kind: kindTool, id: e.ToolCallID, owner: e.SubagentRunID, name: e.ToolCallName, extra: e.ParentMessageID}, actChunk, &e.Base, e.Delta}
	case *ReasoningMessageChunk:
		return move{item{kind: kindThought, id: e.MessageID, owner: e.SubagentRunID}, actChunk, &e.Base, e.Delta}
	}
	return move{}
}

// empty reports that a delta or chunk adds nothing. Metadata and a raw event belong to the item, so an event with either
// is never empty.
func (m *move) empty() bool { return m.delta == "" && m.base.RawEvent == nil && m.base.Metadata == nil }

// continues reports whether a chunk is the next of an open item.
func (m *move) continues(it *item) bool { return it.kind == m.kind && (m.id == "" || m.id == it.id) }

// agrees: a later chunk may repeat the members of the first one, not change them.
func (m *move) agrees(it *item) bool {
	if m.owner != "" && m.owner != it.owner {
		return false
	}
	return (m.name == "" || m.name == it.name) && (m.extra == "" || m.extra == it.extra)
}

// appendContent appends what a chunk adds to its item, if anything.
func (m *move) appendContent(dst []Event, it *item) []Event {
	if m.empty() {
		return dst
	}
	sub := Sub{Base: *m.base, SubagentRunID: it.owner}
	switch m.kind {
	case kindTool:
		return append(dst, &ToolCallArgs{Sub: sub, ToolCallID: it.id, Delta: m.delta})
	case kindThought:
		return append(dst, &ReasoningMessageContent{Sub: sub, MessageID: it.id, Delta: m.delta})
	}
	return append(dst, &TextMessageContent{Sub: sub, MessageID: it.id, Delta: m.delta})
}

// start is the event that opens the item.
func (it *item) start() Event {
	sub := Sub{SubagentRunID: it.owner}
	switch it.kind {
	case kindTool:
		return &ToolCallStart{Sub: sub, ToolCallID: it.id, ToolCallName: it.name, ParentMessageID: it.extra}
	case kindThought:
		return &ReasoningMessageStart{Sub: sub, MessageID: it.id}
	case kindSpan:
		return &ReasoningStart{Sub: sub, MessageID: it.id}
	}
	return &TextMessageStart{Sub: sub, MessageID: it.id, Role: it.name, Name: it.extra}
}

// end is the event that closes the item.
func (it *item) end() Event {
	sub := Sub{SubagentRunID: it.owner}
	switch it.kind {
	case kindTool:
		return &ToolCallEnd{Sub: sub, ToolCallID: it.id}
	case kindThought:
		return &ReasoningMessageEnd{Sub: sub, MessageID: it.id}
	case kindSpan:
		return &ReasoningEnd{Sub: sub, MessageID: it.id}
	case kindStep:
		return &StepFinished{Sub: sub, StepName: it.id}
	case kindAgent:
		return agentEnd(it.id, nil)
	}
	return &TextMessageEnd{Sub: sub, MessageID: it.id}
}
