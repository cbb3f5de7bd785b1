// This file has the three events that are nearly all of every stream. They are encoded and decoded
// by hand, which takes a third of the time that the tables of layout.go need and no map access;
// TestDeltasMatchTheirTables compares the two. Their tags are for that test and for readers.

package agui

// delta is an event that appends text to something open. Events other than the three have member by
// embedding Base or Sub too, so missing is what makes the difference.
type delta interface {
	Event
	membered
	missing() string // the required member that it came without, or ""
}

// EventType is TEXT_MESSAGE_CONTENT.
func (*TextMessageContent) EventType() Type { return TypeTextMessageContent }

// AppendJSON implements [Event].
func (e *TextMessageContent) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, TypeTextMessageContent), "messageId", e.MessageID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

func (e *TextMessageContent) missing() string { return lacks("messageId", e.MessageID) }

func (e *TextMessageContent) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "delta":
		return decodePiece(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

// EventType is TOOL_CALL_ARGS.
func (*ToolCallArgs) EventType() Type { return TypeToolCallArgs }

// AppendJSON implements [Event].
func (e *ToolCallArgs) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, TypeToolCallArgs), "toolCallId", e.ToolCallID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

func (e *ToolCallArgs) missing() string { return lacks("toolCallId", e.ToolCallID) }

func (e *ToolCallArgs) member(key, raw []byte) error {
	switch string(key) {
	case "toolCallId":
		return decodeString(&e.ToolCallID, raw)
	case "delta":
		return decodePiece(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

// EventType is REASONING_MESSAGE_CONTENT.
func (*ReasoningMessageContent) EventType() Type { return TypeReasoningMessageContent }

// AppendJSON implements [Event].
func (e *ReasoningMessageContent) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, TypeReasoningMessageContent), "messageId", e.MessageID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

func (e *ReasoningMessageContent) missing() string { return lacks("messageId", e.MessageID) }

func (e *ReasoningMessageContent) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "delta":
		return decodePiece(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}
