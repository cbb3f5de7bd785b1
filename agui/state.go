package agui

import "encoding/json"

// StateSnapshot replaces the shared state; any JSON is allowed, null included.
type StateSnapshot struct {
	Sub
	Snapshot json.RawMessage
}

// StateDelta changes the shared state by a JSON Patch (RFC 6902).
type StateDelta struct {
	Sub
	Delta json.RawMessage
}

// MessagesSnapshot replaces the conversation a client holds.
type MessagesSnapshot struct {
	Base
	Messages []Message
}

// EventType is STATE_SNAPSHOT.
func (*StateSnapshot) EventType() Type { return TypeStateSnapshot }

// EventType is STATE_DELTA.
func (*StateDelta) EventType() Type { return TypeStateDelta }

// EventType is MESSAGES_SNAPSHOT.
func (*MessagesSnapshot) EventType() Type { return TypeMessagesSnapshot }

// AppendJSON implements [Event].
func (e *StateSnapshot) AppendJSON(dst []byte) []byte {
	dst = appendRawMember(open(dst, e.EventType()), "snapshot", e.Snapshot)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *StateDelta) AppendJSON(dst []byte) []byte {
	dst = appendPatch(open(dst, e.EventType()), "delta", e.Delta)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *MessagesSnapshot) AppendJSON(dst []byte) []byte {
	dst = appendMessages(open(dst, e.EventType()), e.Messages)
	return e.appendTail(dst)
}

// appendPatch writes a patch; without operations it is an empty one.
func appendPatch(dst []byte, key string, patch json.RawMessage) []byte {
	if len(patch) == 0 {
		return append(appendKey(dst, key), '[', ']')
	}
	return appendRawMember(dst, key, patch)
}

func (e *StateSnapshot) member(key, raw []byte) error {
	if string(key) == "snapshot" {
		return decodeAny(&e.Snapshot, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *StateDelta) member(key, raw []byte) error {
	if string(key) == "delta" {
		return decodeArray(&e.Delta, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *MessagesSnapshot) member(key, raw []byte) error {
	if string(key) == "messages" {
		return decodeList(&e.Messages, raw)
	}
	return e.Base.member(key, raw)
}
