package agui

import "encoding/json"

// Amendment is what has changed of a message since it was streamed. AG-UI has no event for that but MESSAGES_SNAPSHOT, which
// replaces all messages at once.
type Amendment struct {
	MessageID string          `json:"messageId"`
	Content   json.RawMessage `json:"content,omitempty"`  // as of a message: a string, or an array of parts; nil is as before
	Error     string          `json:"error,omitempty"`    // of a tool message; "" is as before
	Metadata  json.RawMessage `json:"metadata,omitempty"` // is laid over what there is
}

// Amend applies an Amendment and reports whether there is such a message. A message that is still streamed goes on behind
// the new content.
func (f *Fold) Amend(a Amendment) bool {
	m := f.byID[a.MessageID]
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
	m.changed = true
	m.annotate(a.Metadata)
	return true
}
