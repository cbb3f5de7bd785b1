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

// Message is one message of a conversation. Role says which members mean
// something: ToolCalls belong to assistant, ToolCallID and Error to tool,
// ActivityType and Activity (a JSON object, "content" on the wire) to activity.
type Message struct {
	ID             string
	Role           string
	Content        Content
	Name           string
	ToolCalls      []ToolCall
	ToolCallID     string
	Error          string
	EncryptedValue string
	ActivityType   string
	Activity       json.RawMessage
	Metadata       json.RawMessage
	SubagentRunID  string

	wire []byte // content as it came, until the role is known
	kept []byte // the whole message as JSON, if it is known
}

// ToolCall is an assistant's call of a tool, as part of its message.
type ToolCall struct {
	ID             string
	Function       FunctionCall
	EncryptedValue string
	Metadata       json.RawMessage
}

// FunctionCall is a call's name and its arguments, JSON in a string.
type FunctionCall struct {
	Name      string
	Arguments string
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

// AppendJSON appends the message as a JSON object.
func (m *Message) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "id", m.ID)
	dst = appendMember(dst, "role", m.Role)
	dst = m.appendContent(dst)
	if len(m.ToolCalls) > 0 {
		dst = appendToolCalls(dst, m.ToolCalls)
	}
	if m.Role == RoleTool {
		dst = appendMember(dst, "toolCallId", m.ToolCallID)
	}
	dst = appendOptional(dst, "name", m.Name)
	dst = appendOptional(dst, "error", m.Error)
	dst = appendOptional(dst, "encryptedValue", m.EncryptedValue)
	dst = appendOptional(dst, "subagentRunId", m.SubagentRunID)
	dst = appendOptionalRaw(dst, "metadata", m.Metadata)
	return append(dst, '}')
}

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
	dst = append(appendKey(dst, "messages"), '[')
	for i := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = messages[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

func appendToolCalls(dst []byte, calls []ToolCall) []byte {
	dst = append(appendKey(dst, "toolCalls"), '[')
	for i := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = calls[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the call as a JSON object.
func (c *ToolCall) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "id", c.ID)
	dst = appendMember(dst, "type", "function")
	dst = append(appendKey(dst, "function"), '{')
	dst = appendMember(dst, "name", c.Function.Name)
	dst = append(appendMember(dst, "arguments", c.Function.Arguments), '}')
	dst = appendOptional(dst, "encryptedValue", c.EncryptedValue)
	dst = appendOptionalRaw(dst, "metadata", c.Metadata)
	return append(dst, '}')
}

// MarshalJSON is [Message.AppendJSON].
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// UnmarshalJSON reads a message as [DecodeInput] does.
func (m *Message) UnmarshalJSON(raw []byte) error {
	*m = Message{}
	return walk(raw, m)
}

func (m *Message) member(key, raw []byte) error {
	switch string(key) {
	case "id":
		return decodeString(&m.ID, raw)
	case "role":
		return decodeOneOf(&m.Role, raw, RoleDeveloper, RoleSystem, RoleAssistant, RoleUser,
			RoleTool, RoleReasoning, RoleActivity)
	case "content":
		m.wire = raw
		return nil
	case "name":
		return decodeString(&m.Name, raw)
	case "toolCalls":
		return decodeList(&m.ToolCalls, raw)
	case "toolCallId":
		return decodeString(&m.ToolCallID, raw)
	case "error":
		return decodeString(&m.Error, raw)
	case "encryptedValue":
		return decodeString(&m.EncryptedValue, raw)
	case "activityType":
		return decodeString(&m.ActivityType, raw)
	case "metadata":
		return decodeObject(&m.Metadata, raw)
	case "subagentRunId":
		return decodeString(&m.SubagentRunID, raw)
	}
	return nil
}

// complete reads the content, whose shape depends on the role, and looks for
// what the role demands.
func (m *Message) complete() error {
	wire := m.wire
	m.wire = nil
	absent := lacks("id", m.ID, "role", m.Role)
	switch {
	case absent != "":
	case m.Role == RoleTool:
		absent = lacks("toolCallId", m.ToolCallID)
	case m.Role == RoleActivity:
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
		return decodeObject(&m.Activity, wire)
	case RoleUser, RoleTool:
		return m.Content.decode(wire)
	}
	return decodeString(&m.Content.Text, wire)
}

func (c *ToolCall) member(key, raw []byte) error {
	switch string(key) {
	case "id":
		return decodeString(&c.ID, raw)
	case "type":
		var kind string
		return decodeOneOf(&kind, raw, "function")
	case "function":
		if isNull(raw) {
			return nil
		}
		return walk(raw, &c.Function)
	case "encryptedValue":
		return decodeString(&c.EncryptedValue, raw)
	case "metadata":
		return decodeObject(&c.Metadata, raw)
	}
	return nil
}

func (c *ToolCall) complete() error {
	if absent := lacks("id", c.ID, "function", c.Function.Name); absent != "" {
		return within(absent, wrong("is required"))
	}
	return nil
}

func (f *FunctionCall) member(key, raw []byte) error {
	switch string(key) {
	case "name":
		return decodeString(&f.Name, raw)
	case "arguments":
		return decodeString(&f.Arguments, raw)
	}
	return nil
}
