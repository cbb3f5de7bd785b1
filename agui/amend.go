package agui

import (
	"encoding/json"
	"slices"
)

// MessageChanged is the name of the CUSTOM by which a log has an [Amendment].
const MessageChanged = "message_changed"

// Amendment is what has changed of a message since it was streamed. AG-UI has no event for that but MESSAGES_SNAPSHOT, which
// replaces all messages at once.
type Amendment struct {
	MessageID string          `json:"messageId"`
	Role      string          `json:"role,omitempty"`      // of a message that was not streamed: an assistant's
	Content   json.RawMessage `json:"content,omitempty"`   // as of a message: a string, or an array of parts; nil is as before
	Error     string          `json:"error,omitempty"`     // of a tool message; "" is as before
	ToolCalls *[]ToolCall     `json:"toolCalls,omitempty"` // all that the message has now; nil is as before
	Metadata  json.RawMessage `json:"metadata,omitempty"`  // is laid over what there is
	After     string          `json:"after,omitempty"`     // the message behind which it stands now; "" is where it was
}

// Changes reports whether anything is another than before.
func (a *Amendment) Changes() bool { return a.Shows() || a.Metadata != nil || a.After != "" }

// Shows reports whether clients show the message otherwise than before. They keep the place of a message that they have.
func (a *Amendment) Shows() bool { return a.Content != nil || a.Error != "" || a.ToolCalls != nil }

// Amend applies an Amendment and reports whether there is such a message. A message that is still streamed goes on behind
// the new content.
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
		f.setCalls(m, *a.ToolCalls)
	}
	if behind := f.byID[a.After]; behind != nil && behind != m {
		f.list = slices.DeleteFunc(f.list, func(other *folded) bool { return other == m })
		f.list = slices.Insert(f.list, slices.Index(f.list, behind)+1, m)
	}
	m.changed = true
	m.annotate(a.Metadata)
	return true
}

// setCalls gives a message other calls. Those that it took from another message are found here from now on.
func (f *Fold) setCalls(m *folded, calls []ToolCall) {
	for _, call := range m.ToolCalls {
		if f.calls[call.ID].in == m {
			delete(f.calls, call.ID)
		}
	}
	m.ToolCalls, m.args = slices.Clone(calls), nil
	for i, call := range m.ToolCalls {
		f.calls[call.ID] = callAt{m, i}
	}
}

// CallIn is the id of the message that has a call; "" for none.
func (f *Fold) CallIn(id string) string {
	if at, there := f.calls[id]; there {
		return at.in.ID
	}
	return ""
}
