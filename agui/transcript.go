// This file removes the conversation from a state. Frameworks whose state is a graph's (LangGraph) keep all messages in it
// and send all of it after each step. The log already has these messages as messages.

package agui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// transcriptKey is the top-level key under which these frameworks keep the conversation.
const transcriptKey = "messages"

// transcriptMark occurs in every text that names the key.
var transcriptMark = []byte(transcriptKey)

// WithoutTranscript returns a state without the conversation. A list under that key stays if any element is not a message of
// LangChain, AG-UI or OpenAI: it is an application's own.
func WithoutTranscript(state json.RawMessage) json.RawMessage {
	if !bytes.Contains(state, transcriptMark) || !json.Valid(state) {
		return state
	}
	fields, err := readMembers(state)
	if err != nil || !isTranscript(fields.get(transcriptKey)) {
		return state
	}
	fields.remove(transcriptKey)
	return fields.appendJSON(nil)
}

// PatchWithoutTranscript removes from a JSON Patch the operations on a conversation that is not in the state. It returns nil
// if no operation is left. The other operations do not change.
func (d *StateDoc) PatchWithoutTranscript(ops json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if !bytes.Contains(ops, transcriptMark) || json.Unmarshal(ops, &list) != nil {
		return ops
	}
	have := d.Key(transcriptKey)
	kept := list[:0]
	changed := false
	for _, op := range list {
		rest, keep := withoutTranscript(op, have)
		changed = changed || !keep || !bytes.Equal(rest, op)
		if keep {
			kept = append(kept, rest)
		}
	}
	switch {
	case !changed:
		return ops
	case len(kept) == 0:
		return nil
	}
	out, err := json.Marshal(kept)
	if err != nil { // they were decoded
		return ops
	}
	return out
}

// withoutTranscript removes the conversation from one operation. It reports false if nothing else is left. have is the
// state's value of the key, or nil if the conversation was removed from the state.
func withoutTranscript(op, have json.RawMessage) (json.RawMessage, bool) {
	var is struct {
		Path  *string         `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(op, &is) != nil || is.Path == nil {
		return op, true
	}
	switch below, of := strings.CutPrefix(*is.Path, "/"+transcriptKey); {
	case *is.Path == "" && len(is.Value) > 0:
		fields, err := readMembers(op)
		if err != nil {
			return op, true
		}
		fields.set("value", WithoutTranscript(is.Value))
		return fields.appendJSON(nil), true
	case of && below == "":
		return op, !isTranscript(is.Value) && (have != nil || len(is.Value) > 0)
	case of && below[0] == '/':
		return op, have != nil && !(isEmptyList(have) && isTranscriptMessage(is.Value))
	}
	return op, true
}

func isEmptyList(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && len(list) == 0
}

// isTranscript reports whether a value is a list that contains only messages. An empty list does not count.
func isTranscript(raw json.RawMessage) bool {
	var list []json.RawMessage
	return len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil && len(list) > 0 &&
		!slices.ContainsFunc(list, func(m json.RawMessage) bool { return !isTranscriptMessage(m) })
}

// isTranscriptMessage reports whether a value is a message in one of these forms: LangChain's ("type", or "lc" when
// serialized), or that of AG-UI and OpenAI ("role").
func isTranscriptMessage(raw json.RawMessage) bool {
	var m struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		LC      json.RawMessage `json:"lc"`
		Kwargs  json.RawMessage `json:"kwargs"`
		Content json.RawMessage `json:"content"`
		Calls   json.RawMessage `json:"tool_calls"`
		AGUI    json.RawMessage `json:"toolCalls"`
	}
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &m) != nil {
		return false
	}
	if m.LC != nil && m.Kwargs != nil {
		return true
	}
	if m.Content == nil && m.Calls == nil && m.AGUI == nil {
		return m.Type == "remove" // LangGraph's order to remove one
	}
	switch m.Type {
	case "human", "ai", "tool", "system", "function", "chat", "developer",
		"HumanMessage", "AIMessage", "AIMessageChunk", "HumanMessageChunk", "ToolMessage", "SystemMessage":
		return true
	}
	switch m.Role {
	case RoleUser, RoleAssistant, RoleTool, RoleSystem, RoleDeveloper, RoleReasoning, "function":
		return true
	}
	return false
}

// TooLargeKeys returns the keys without which a state would fit, the largest first. It returns none for a state that is not
// an object, or that fits.
func TooLargeKeys(state json.RawMessage) (keys []string) {
	if len(state) <= MaxStateBytes || !json.Valid(state) {
		return nil
	}
	fields, err := readMembers(state)
	if err != nil {
		return nil
	}
	bySize := slices.Clone(fields.keys)
	slices.SortStableFunc(bySize, func(a, b string) int { return len(fields.vals[b]) - len(fields.vals[a]) })
	size := fields.size
	for _, key := range bySize {
		if size <= MaxStateBytes {
			break
		}
		size -= fields.sizeOf(key)
		keys = append(keys, key)
	}
	return keys
}
