// This file has the events that replace or change what both sides share: the state, and the list of
// messages.

package agui

import "encoding/json"

// StateSnapshot replaces the shared state; any JSON is allowed, null included.
type StateSnapshot struct {
	Sub
	Snapshot json.RawMessage `agui:"snapshot,required,any"`
}

// StateDelta changes the shared state by a JSON Patch (RFC 6902).
type StateDelta struct {
	Sub
	Delta json.RawMessage `agui:"delta,required,array"`
}

// MessagesSnapshot replaces the conversation a client holds.
type MessagesSnapshot struct {
	Base
	Messages []Message `agui:"messages,always"`
}

// EventType is STATE_SNAPSHOT.
func (*StateSnapshot) EventType() Type { return TypeStateSnapshot }

// AppendJSON implements [Event].
func (e *StateSnapshot) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is STATE_DELTA.
func (*StateDelta) EventType() Type { return TypeStateDelta }

// AppendJSON implements [Event].
func (e *StateDelta) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is MESSAGES_SNAPSHOT.
func (*MessagesSnapshot) EventType() Type { return TypeMessagesSnapshot }

// AppendJSON implements [Event].
func (e *MessagesSnapshot) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
