// This file has the events of reasoning: spans, the messages within them, and values that only the
// model's provider can read.

package agui

// ReasoningStart opens a span of reasoning; its id is the span's own and may
// equal a reasoning message's.
type ReasoningStart struct {
	Sub
	MessageID string `agui:"messageId,required"`
}

// ReasoningEnd closes a span of reasoning.
type ReasoningEnd struct {
	Sub
	MessageID string `agui:"messageId,required"`
}

// ReasoningMessageStart opens a reasoning message. The role on the wire is always
// "reasoning": official consumers of 1.0 fail on any other. A message without the
// role is accepted, because the THINKING_* events that become this one have none.
type ReasoningMessageStart struct {
	Sub
	MessageID string `agui:"messageId,required"`
	_         string `agui:"role,const=reasoning"`
}

// ReasoningMessageContent appends Delta to an open reasoning message.
type ReasoningMessageContent struct {
	Sub
	MessageID string `agui:"messageId,required"`
	Delta     string `agui:"delta,always,piece"`
}

// ReasoningMessageEnd closes a reasoning message.
type ReasoningMessageEnd struct {
	Sub
	MessageID string `agui:"messageId,required"`
}

// ReasoningMessageChunk is start, content and end of a reasoning message in one.
type ReasoningMessageChunk struct {
	Sub
	MessageID string `agui:"messageId"`
	Delta     string `agui:"delta,piece"`
}

// ReasoningEncryptedValue attaches an opaque value of the model's to a message
// or tool call; a client sends it back with the next input. EncryptedValueType, its kind, is of the draft of 1.1.
type ReasoningEncryptedValue struct {
	Sub
	Subtype            string `agui:"subtype,required,oneof=message|tool-call"`
	EntityID           string `agui:"entityId,required"`
	EncryptedValue     string `agui:"encryptedValue,always"`
	EncryptedValueType string `agui:"encryptedValueType,later"`
}

// EventType is REASONING_START.
func (*ReasoningStart) EventType() Type { return TypeReasoningStart }

// AppendJSON implements [Event].
func (e *ReasoningStart) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is REASONING_END.
func (*ReasoningEnd) EventType() Type { return TypeReasoningEnd }

// AppendJSON implements [Event].
func (e *ReasoningEnd) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is REASONING_MESSAGE_START.
func (*ReasoningMessageStart) EventType() Type { return TypeReasoningMessageStart }

// AppendJSON implements [Event].
func (e *ReasoningMessageStart) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is REASONING_MESSAGE_END.
func (*ReasoningMessageEnd) EventType() Type { return TypeReasoningMessageEnd }

// AppendJSON implements [Event].
func (e *ReasoningMessageEnd) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is REASONING_MESSAGE_CHUNK.
func (*ReasoningMessageChunk) EventType() Type { return TypeReasoningMessageChunk }

// AppendJSON implements [Event].
func (e *ReasoningMessageChunk) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is REASONING_ENCRYPTED_VALUE.
func (*ReasoningEncryptedValue) EventType() Type { return TypeReasoningEncryptedValue }

// AppendJSON implements [Event].
func (e *ReasoningEncryptedValue) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
