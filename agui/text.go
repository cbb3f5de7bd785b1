package agui

// TextMessageStart opens a text message. An absent Role means assistant.
type TextMessageStart struct {
	Sub
	MessageID string
	Role      string
	Name      string
}

// TextMessageContent appends Delta to an open text message.
type TextMessageContent struct {
	Sub
	MessageID string
	Delta     string
}

// TextMessageEnd closes a text message.
type TextMessageEnd struct {
	Sub
	MessageID string
}

// TextMessageChunk is start, content and end in one: the first chunk of a
// message names it, and whatever does not continue it ends it.
type TextMessageChunk struct {
	Sub
	MessageID string
	Role      string
	Name      string
	Delta     string
}

// EventType is TEXT_MESSAGE_START.
func (*TextMessageStart) EventType() Type { return TypeTextMessageStart }

// EventType is TEXT_MESSAGE_CONTENT.
func (*TextMessageContent) EventType() Type { return TypeTextMessageContent }

// EventType is TEXT_MESSAGE_END.
func (*TextMessageEnd) EventType() Type { return TypeTextMessageEnd }

// EventType is TEXT_MESSAGE_CHUNK.
func (*TextMessageChunk) EventType() Type { return TypeTextMessageChunk }

// AppendJSON implements [Event].
func (e *TextMessageStart) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendOptional(dst, "role", e.Role)
	dst = appendOptional(dst, "name", e.Name)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *TextMessageContent) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendMember(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *TextMessageEnd) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "messageId", e.MessageID)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *TextMessageChunk) AppendJSON(dst []byte) []byte {
	dst = appendOptional(open(dst, e.EventType()), "messageId", e.MessageID)
	dst = appendOptional(dst, "role", e.Role)
	dst = appendOptional(dst, "name", e.Name)
	dst = appendOptional(dst, "delta", e.Delta)
	return e.appendTail(dst)
}

func (e *TextMessageStart) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "role":
		return decodeOneOf(&e.Role, raw, "assistant", "user", "system", "developer")
	case "name":
		return decodeString(&e.Name, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *TextMessageContent) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *TextMessageEnd) member(key, raw []byte) error {
	if string(key) == "messageId" {
		return decodeString(&e.MessageID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *TextMessageChunk) member(key, raw []byte) error {
	switch string(key) {
	case "messageId":
		return decodeString(&e.MessageID, raw)
	case "role":
		return decodeOneOf(&e.Role, raw, "assistant", "user", "system", "developer")
	case "name":
		return decodeString(&e.Name, raw)
	case "delta":
		return decodeString(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}
