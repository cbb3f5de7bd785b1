// This file has the events of tool calls.

package agui

// ToolCallStart opens a tool call. ParentMessageID is the assistant message it
// belongs to; without one, a client makes a message whose id is ToolCallID.
type ToolCallStart struct {
	Sub
	ToolCallID      string `agui:"toolCallId,required"`
	ToolCallName    string `agui:"toolCallName,required"`
	ParentMessageID string `agui:"parentMessageId"`
}

// ToolCallArgs appends Delta to the arguments of an open tool call.
type ToolCallArgs struct {
	Sub
	ToolCallID string `agui:"toolCallId,required"`
	Delta      string `agui:"delta,always,piece"`
}

// ToolCallEnd marks the arguments as complete.
type ToolCallEnd struct {
	Sub
	ToolCallID string `agui:"toolCallId,required"`
}

// ToolCallChunk is start, arguments and end in one.
type ToolCallChunk struct {
	Sub
	ToolCallID      string `agui:"toolCallId"`
	ToolCallName    string `agui:"toolCallName"`
	ParentMessageID string `agui:"parentMessageId"`
	Delta           string `agui:"delta,piece"`
}

// ToolCallResult is what a tool call came to; it becomes the tool message
// MessageID.
type ToolCallResult struct {
	Sub
	MessageID  string  `agui:"messageId,required"`
	ToolCallID string  `agui:"toolCallId,required"`
	Content    Content `agui:"content,always"`
	Role       string  `agui:"role,oneof=tool"` // "tool" or absent
}

// EventType is TOOL_CALL_START.
func (*ToolCallStart) EventType() Type { return TypeToolCallStart }

// AppendJSON implements [Event].
func (e *ToolCallStart) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is TOOL_CALL_END.
func (*ToolCallEnd) EventType() Type { return TypeToolCallEnd }

// AppendJSON implements [Event].
func (e *ToolCallEnd) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is TOOL_CALL_CHUNK.
func (*ToolCallChunk) EventType() Type { return TypeToolCallChunk }

// AppendJSON implements [Event].
func (e *ToolCallChunk) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is TOOL_CALL_RESULT.
func (*ToolCallResult) EventType() Type { return TypeToolCallResult }

// AppendJSON implements [Event].
func (e *ToolCallResult) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
