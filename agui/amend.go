package agui

import (
	"encoding/json"
	"slices"
)

// MessageChanged is the name of the CUSTOM event that carries an [Amendment] in a log.
const MessageChanged = "message_changed"

// Amendment is what has changed of a message since it was streamed. AG-UI has no event for that but MESSAGES_SNAPSHOT, which
// replaces all messages at once.
type Amendment struct {
	MessageID string          `json:"messageId"`
	Role      string          `json:"role,omitempty"`      // of a message that was not streamed: an assistant's
	Content   json.RawMessage `json:"content,omitempty"`   // as of a message: a string, or an array of parts; nil leaves it unchanged
	Error     string          `json:"error,omitempty"`     // of a tool message; "" leaves it unchanged
	ToolCalls *[]ToolCall     `json:"toolCalls,omitempty"` // all calls of the message after the change; nil leaves them unchanged
	Metadata  json.RawMessage `json:"metadata,omitempty"`  // is merged over the existing metadata
	After     string          `json:"after,omitempty"`     // the message that it now follows; "" leaves its place unchanged
}

// Changes reports whether the amendment changes anything.
func (a *Amendment) Changes() bool { return a.Shows() || a.Metadata != nil || a.After != "" }

// Shows reports whether clients must display the message differently. Clients keep the place of a message that they have.
func (a *Amendment) Shows() bool { return a.Content != nil || a.Error != "" || a.ToolCalls != nil }

// Amend applies an Amendment and reports whether the message exists. Every event of a log that has one passes through it,
// live and in a replay, so that a Run resumed after a restart has the same state. A message that is still streamed continues
// after the new content.
func (f *Fold) Amend(a Amendment) bool {
	m := f.byID[a.MessageID]
	if m == nil && a.Role == RoleAssistant {
		m = f.push(Message{ID: a.MessageID, Role: a.Role, Content: Content{Absent: true}})
	}
	if m == nil || m.Role == RoleActivity || m.Role == RoleUser {
		return false
	}
	if len(a.Content) > 0 {
		var content Content
		if content.UnmarshalJSON(a.Content) != nil {
			return false
		}
		m.Content, m.text = content, nil
	}
	if a.Error != "" {
		m.Error = a.Error
	}
	if a.ToolCalls != nil {
		m.setCalls(f.calls, *a.ToolCalls)
	}
	if behind := f.byID[a.After]; behind != nil && behind != m {
		f.list = slices.DeleteFunc(f.list, func(other *folded) bool { return other == m })
		f.list = slices.Insert(f.list, slices.Index(f.list, behind)+1, m)
	}
	m.changed = true
	m.annotate(a.Metadata)
	return true
}

// setCalls replaces a message's calls. Calls that it took from another message are indexed under it from now on.
func (m *folded) setCalls(index map[string]callAt, calls []ToolCall) {
	for _, call := range m.ToolCalls {
		if index[call.ID].in == m {
			delete(index, call.ID)
		}
	}
	m.ToolCalls, m.args = slices.Clone(calls), nil
	for i, call := range m.ToolCalls {
		index[call.ID] = callAt{m, i}
	}
}
