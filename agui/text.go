// This file has the events of text messages.

package agui

// TextMessageStart opens a text message. An absent Role means assistant.
type TextMessageStart struct {
	Sub
	MessageID string `agui:"messageId,required"`
	Role      string `agui:"role,oneof=assistant|user|system|developer"`
	Name      string `agui:"name"`
}

// TextMessageContent appends Delta to an open text message.
type TextMessageContent struct {
	Sub
	MessageID string `agui:"messageId,required"`
	Delta     string `agui:"delta,always,piece"`
}

// TextMessageEnd closes a text message.
type TextMessageEnd struct {
	Sub
	MessageID string `agui:"messageId,required"`
}

// TextMessageChunk is start, content and end in one: the first chunk of a
// message names it, and whatever does not continue it ends it.
type TextMessageChunk struct {
	Sub
	MessageID string `agui:"messageId"`
	Role      string `agui:"role,oneof=assistant|user|system|developer"`
	Name      string `agui:"name"`
	Delta     string `agui:"delta,piece"`
}

// EventType is TEXT_MESSAGE_START.
func (*TextMessageStart) EventType() Type { return TypeTextMessageStart }

// AppendJSON implements [Event].
func (e *TextMessageStart) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is TEXT_MESSAGE_END.
func (*TextMessageEnd) EventType() Type { return TypeTextMessageEnd }

// AppendJSON implements [Event].
func (e *TextMessageEnd) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is TEXT_MESSAGE_CHUNK.
func (*TextMessageChunk) EventType() Type { return TypeTextMessageChunk }

// AppendJSON implements [Event].
func (e *TextMessageChunk) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
