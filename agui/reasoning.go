package agui

// ReasoningStart opens a span of reasoning; its id is the span's own and may
// equal a reasoning message's.
type ReasoningStart struct {
	Sub
	MessageID string
}

// ReasoningEnd closes a span of reasoning.
type ReasoningEnd struct {
	Sub
	MessageID string
}

// ReasoningMessageStart opens a reasoning message. Its role is "reasoning",
// which the wire demands and the encoder writes.
type ReasoningMessageStart struct {
	Sub
	MessageID string
}

// ReasoningMessageContent appends Delta to an open reasoning message.
type ReasoningMessageContent struct {
	Sub
	MessageID string
	Delta     string
}

// ReasoningMessageEnd closes a reasoning message.
type ReasoningMessageEnd struct {
	Sub
	MessageID string
}

// ReasoningMessageChunk is start, content and end of a reasoning message in one.
type ReasoningMessageChunk struct {
	Sub
	MessageID string
	Delta     string
}

// ReasoningEncryptedValue attaches an opaque value of the model's to a message
// or tool call; a client sends it back with the next input.
type ReasoningEncryptedValue struct {
	Sub
	Subtype        string // "message" or "tool-call"
	EntityID       string
	EncryptedValue string
}

// EventType is REASONING_START.
func (*ReasoningStart) EventType() Type { return TypeReasoningStart }

// EventType is REASONING_END.
func (*ReasoningEnd) EventType() Type { return TypeReasoningEnd }

// EventType is REASONING_MESSAGE_START.
func (*ReasoningMessageStart) EventType() Type { return TypeReasoningMessageStart }

// EventType is REASONING_MESSAGE_CONTENT.
func (*ReasoningMessageContent) EventType() Type { return TypeReasoningMessageContent }

// EventType is REASONING_MESSAGE_END.
func (*ReasoningMessageEnd) EventType() Type { return TypeReasoningMessageEnd }

// EventType is REASONING_MESSAGE_CHUNK.
func (*ReasoningMessageChunk) EventType() Type { return TypeReasoningMessageChunk }

// EventType is REASONING_ENCRYPTED_VALUE.
func (*ReasoningEncryptedValue) EventType() Type { return TypeReasoningEncryptedValue }

// AppendJSON implements [Event].
func (e *ReasoningStart) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningEnd) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningMessageStart) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "role", RoleReasoning)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningMessageContent) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningMessageEnd) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningMessageChunk) AppendJSON(dst []byte) []byte {
	dst = appendOptional(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendOptional(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *ReasoningEncryptedValue) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "subtype", e.Subtype)
	dst = appendMember(dst, "entityId", e.EntityID)
	dst = appendMember(dst, "encryptedValue", e.EncryptedValue)
	return e.appendTail(dst)
}

func (e *ReasoningStart) member(key, raw []byte) error {
	if string(key) == "messageId" {
		return decodeString(&e.MessageID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ReasoningEnd) member(key, raw []byte) error {
	if string(key) == "messageId" {
		return decodeString(&e.MessageID, raw)
	}
	return e.Sub.member(key, raw)
}

// member refuses another role than reasoning, which is fatal to a consumer of AG-UI 1.0. The
// role may be missing: the events from before 1.0 that are translated have none.
func (e *ReasoningMessageStart) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "role":
		var role string
		return decodeOneOf(&role, raw, RoleReasoning)
	}
	return e.Sub.member(key, raw)
}

func (e *ReasoningMessageContent) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ReasoningMessageEnd) member(key, raw []byte) error {
	if string(key) == "messageId" {
		return decodeString(&e.MessageID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ReasoningMessageChunk) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *ReasoningEncryptedValue) member(key, raw []byte) error {
	switch string(key) {
	case "subtype":
		return decodeOneOf(&e.Subtype, raw, "message", "tool-call")
	case "entityId":
		return decodeString(&e.EntityID, raw)
	case "encryptedValue":
		return decodeString(&e.EncryptedValue, raw)
	}
	return e.Sub.member(key, raw)
}
