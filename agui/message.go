// This file is the message of AG-UI, the one object that travels in both directions: in a client's
// input, in snapshots, and in the history.

package agui

import (
	"encoding/json"
)

// The roles of a message.
const (
	RoleDeveloper = "developer"
	RoleSystem    = "system"
	RoleAssistant = "assistant"
	RoleUser      = "user"
	RoleTool      = "tool"
	RoleReasoning = "reasoning"
	RoleActivity  = "activity"
)

// Message is one message of a conversation. Role decides which members mean
// something: ToolCalls belong to assistant, ToolCallID and Error to tool,
// ActivityType and Activity (a JSON object, "content" on the wire) to activity.
// EncryptedValueType, the kind of the value, is of the draft of 1.1.
// One struct for seven roles, as on the wire: code that moves messages need not know which roles
// there are.
type Message struct {
	ID             string `agui:"id,required"`
	Role           string `agui:"role,required,oneof=developer|system|assistant|user|tool|reasoning|activity"`
	Content        Content
	Name           string     `agui:"name"`
	ToolCalls      []ToolCall `agui:"toolCalls,most=20000"`
	ToolCallID     string     `agui:"toolCallId"`
	Error          string     `agui:"error"`
	EncryptedValue string     `agui:"encryptedValue"`

	EncryptedValueType string `agui:"encryptedValueType"`
	ActivityType       string `agui:"activityType"`
	Activity           json.RawMessage
	Metadata           json.RawMessage `agui:"metadata,object"`
	SubagentRunID      string          `agui:"subagentRunId"`
	Unknown            json.RawMessage // other members, as in Base

	wire []byte // content as it came, until the role is known
	kept []byte // the whole message as JSON, if it is known
}

// ToolCall is an assistant's call of a tool, as part of its message.
type ToolCall struct {
	ID             string          `agui:"id,required"`
	_              string          `agui:"type,const=function"`
	Function       FunctionCall    `agui:"function,always"`
	EncryptedValue string          `agui:"encryptedValue"`
	Metadata       json.RawMessage `agui:"metadata,object"`

	EncryptedValueType string          `agui:"encryptedValueType"` // as in Message
	Unknown            json.RawMessage // other members, as in Base
}

// FunctionCall is a call's name and its arguments, JSON in a string.
type FunctionCall struct {
	Name      string `agui:"name,always"`
	Arguments string `agui:"arguments,always"`
}

// Kept gives the message its own JSON, for those who pass it on as it is.
func (m *Message) Kept(raw []byte) { m.kept = raw }

// AppendKept is [Message.AppendJSON] of a message that was not changed since it was kept.
func (m *Message) AppendKept(dst []byte) []byte {
	if len(m.kept) > 0 {
		return append(dst, m.kept...)
	}
	return m.AppendJSON(dst)
}

// KeptSize is about how much AppendKept appends.
func (m *Message) KeptSize() int {
	if len(m.kept) > 0 {
		return len(m.kept)
	}
	size := len(m.Content.Text)
	for i := range m.Content.Parts {
		if size += len(m.Content.Parts[i].Text) + 128; m.Content.Parts[i].Source != nil {
			size += len(m.Content.Parts[i].Source.Value)
		}
	}
	return size
}

// AppendJSON appends the message as a JSON object. It is written by hand and not by its table,
// because which members are written depends on the role, and because histories are the largest thing
// that is encoded.
func (m *Message) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "id", m.ID)
	dst = appendMember(dst, "role", m.Role)
	dst = m.appendContent(dst)
	if len(m.ToolCalls) > 0 {
		dst = append(appendKey(dst, "toolCalls"), '[')
		for i := range m.ToolCalls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendObject(dst, &m.ToolCalls[i])
		}
		dst = append(dst, ']')
	}
	if m.Role == RoleTool {
		dst = appendMember(dst, "toolCallId", m.ToolCallID)
	}
	dst = appendOptional(dst, "name", m.Name)
	dst = appendOptional(dst, "error", m.Error)
	dst = appendOptional(dst, "encryptedValue", m.EncryptedValue)
	dst = appendOptional(dst, "encryptedValueType", m.EncryptedValueType)
	dst = appendOptional(dst, "subagentRunId", m.SubagentRunID)
	dst = appendOptionalRaw(dst, "metadata", m.Metadata)
	return append(dst, '}')
}

// appendContent writes the content. An assistant message that only calls tools has none at all:
// providers refuse one with an empty string.
func (m *Message) appendContent(dst []byte) []byte {
	switch {
	case m.Role == RoleActivity:
		dst = appendMember(dst, "activityType", m.ActivityType)
		if len(m.Activity) == 0 {
			return append(appendKey(dst, "content"), '{', '}')
		}
		return appendRawMember(dst, "content", m.Activity)
	case m.Content.Absent && m.Role == RoleAssistant:
		return dst
	}
	return m.Content.AppendJSON(appendKey(dst, "content"))
}

func appendMessages(dst []byte, messages []Message) []byte {
	dst = append(dst, '[')
	for i := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = messages[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// MarshalJSON is [Message.AppendJSON].
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads a message as [DecodeInput] does.
func (m *Message) UnmarshalJSON(raw []byte) error {
	*m = Message{}
	return readObject(raw, m)
}

// MarshalJSON encodes the call as part of a message.
func (c ToolCall) MarshalJSON() ([]byte, error) { return appendObject(nil, &c), nil }

// UnmarshalJSON decodes the call as part of a message.
func (c *ToolCall) UnmarshalJSON(raw []byte) error {
	*c = ToolCall{}
	return readObject(raw, c)
}

// member keeps the content until the role is known; the table reads the others.
func (m *Message) member(key, raw []byte) error {
	if string(key) == "content" {
		m.wire = raw
	} else {
		m.Unknown = withUnknown(m.Unknown, key, raw)
	}
	return nil
}

// member sets what is not in the table apart.
func (c *ToolCall) member(key, raw []byte) error {
	if string(key) != "type" {
		c.Unknown = withUnknown(c.Unknown, key, raw)
	}
	return nil
}

// complete reads the content, whose shape depends on the role, and looks for
// what the role demands.
func (m *Message) complete() error {
	wire := m.wire
	m.wire = nil
	absent := ""
	switch m.Role {
	case RoleTool:
		absent = lacks("toolCallId", m.ToolCallID)
	case RoleActivity:
		absent = lacks("activityType", m.ActivityType)
	}
	if absent != "" {
		return within(absent, wrong("is required"))
	}
	if err := m.decodeContent(wire); err != nil {
		return within("content", err)
	}
	return nil
}

// decodeContent reads the content: an object for activities, text or parts for users and tools, text
// for the others.
func (m *Message) decodeContent(wire []byte) error {
	if wire == nil || isNull(wire) {
		m.Content.Absent = true
		if m.Role != RoleAssistant {
			return wrong("is required")
		}
		return nil
	}
	switch m.Role {
	case RoleActivity:
		return decodeJSON(&m.Activity, wire, formObject)
	case RoleUser, RoleTool:
		return m.Content.decode(wire)
	}
	return decodeString(&m.Content.Text, wire)
}

// complete reports a missing name as a missing function, whichever of the two is absent.
func (c *ToolCall) complete() error {
	if c.Function.Name == "" {
		return within("function", wrong("is required"))
	}
	return nil
}
