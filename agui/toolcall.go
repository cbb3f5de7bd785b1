package agui

// ToolCallStart opens a tool call. ParentMessageID is the assistant message it
// belongs to; without one, a client makes a message whose id is ToolCallID.
type ToolCallStart struct {
	Sub
	ToolCallID      string
	ToolCallName    string
	ParentMessageID string
}

// ToolCallArgs appends Delta to the arguments of an open tool call.
type ToolCallArgs struct {
	Sub
	ToolCallID string
	Delta      string
}

// ToolCallEnd says that the arguments are complete.
type ToolCallEnd struct {
	Sub
	ToolCallID string
}

// ToolCallChunk is start, arguments and end in one.
type ToolCallChunk struct {
	Sub
	ToolCallID      string
	ToolCallName    string
	ParentMessageID string
	Delta           string
}

// ToolCallResult is what a tool call came to; it becomes the tool message
// MessageID.
type ToolCallResult struct {
	Sub
	MessageID  string
	ToolCallID string
	Content    Content
	Role       string // "tool" or absent
}

// EventType is TOOL_CALL_START.
func (*ToolCallStart) EventType() Type { return TypeToolCallStart }

// EventType is TOOL_CALL_ARGS.
func (*ToolCallArgs) EventType() Type { return TypeToolCallArgs }

// EventType is TOOL_CALL_END.
func (*ToolCallEnd) EventType() Type { return TypeToolCallEnd }

// EventType is TOOL_CALL_CHUNK.
func (*ToolCallChunk) EventType() Type { return TypeToolCallChunk }

// EventType is TOOL_CALL_RESULT.
func (*ToolCallResult) EventType() Type { return TypeToolCallResult }

// AppendJSON implements [Event].
func (e *ToolCallStart) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "toolCallId", e.ToolCallID)
	dst = appendMember(dst, "toolCallName", e.ToolCallName)
	dst = appendOptional(dst, "parentMessageId", e.ParentMessageID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ToolCallArgs) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "toolCallId", e.ToolCallID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ToolCallEnd) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "toolCallId", e.ToolCallID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ToolCallChunk) AppendJSON(dst []byte) []byte {
	dst = appendOptional(open(dst, e.EventType()), "toolCallId", e.ToolCallID)
	dst = appendOptional(dst, "toolCallName", e.ToolCallName)
	dst = appendOptional(dst, "parentMessageId", e.ParentMessageID)
	dst = appendOptional(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ToolCallResult) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "toolCallId", e.ToolCallID)
	dst = e.Content.AppendJSON(appendKey(dst, "content"))
	dst = appendOptional(dst, "role", e.Role)
	return e.appendTail(dst)
}

func (e *ToolCallStart) member(key, raw []byte) error {
	switch string(key) {
	case "toolCallId":
		return decodeString(&e.ToolCallID, raw)
	case "toolCallName":
		return decodeString(&e.ToolCallName, raw)
	case "parentMessageId":
		return decodeString(&e.ParentMessageID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ToolCallArgs) member(key, raw []byte) error {
	switch string(key) {
	case "toolCallId":
		return decodeString(&e.ToolCallID, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ToolCallEnd) member(key, raw []byte) error {
	if string(key) == "toolCallId" {
		return decodeString(&e.ToolCallID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ToolCallChunk) member(key, raw []byte) error {
	switch string(key) {
	case "toolCallId":
		return decodeString(&e.ToolCallID, raw)
	case "toolCallName":
		return decodeString(&e.ToolCallName, raw)
	case "parentMessageId":
		return decodeString(&e.ParentMessageID, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ToolCallResult) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "toolCallId":
		return decodeString(&e.ToolCallID, raw)
	case "content":
		return e.Content.decode(raw)
	case "role":
		return decodeOneOf(&e.Role, raw, RoleTool)
	}
	return e.Sub.member(key, raw)
}
