// This file is what all events share: the interface and the members of the two embedded structs.

package agui

import "encoding/json"

// Event is one AG-UI event. It is implemented by pointers to the structs of
// this package, one for each [Type].
type Event interface {
	// EventType is the event's "type".
	EventType() Type
	// AppendJSON appends the event as one line of JSON, "type" first. It does
	// not allocate when dst has room.
	AppendJSON(dst []byte) []byte
}

// Base holds what every event may carry (AG-UI 1.0, "Base event").
type Base struct {
	Timestamp int64           // Unix milliseconds; 0 is absent
	RawEvent  json.RawMessage // the upstream's own event; never null
	Metadata  json.RawMessage // a JSON object; never null

	// Unknown are the members that came and that AG-UI 1.0 does not have, as an object; nil for none. They are read and never
	// written: what this package encodes is 1.0.
	Unknown json.RawMessage
}

// UnknownMembersKey is the metadata member that holds an agent's unknown members in the log ([Base]).
const UnknownMembersKey = "aqueduct.members"

// Shared gives what an event has in common with all others.
func Shared(ev Event) *Base {
	if s, ok := ev.(sharing); ok {
		return s.shared()
	}
	return new(Base)
}

func (b *Base) shared() *Base { return b }

// Sub is the [Base] of the events that may come from a subagent.
type Sub struct {
	Base
	SubagentRunID string // whose event this is; "" is the run's own agent
}

// appendTail writes the members that come last in every event, and its closing bracket.
func (b *Base) appendTail(dst []byte) []byte {
	if b.Timestamp != 0 {
		dst = appendInt(appendKey(dst, "timestamp"), b.Timestamp)
	}
	dst = appendOptionalRaw(dst, "rawEvent", b.RawEvent)
	dst = appendOptionalRaw(dst, "metadata", b.Metadata)
	return append(dst, '}')
}

// appendTail writes the subagent in front of them.
func (s *Sub) appendTail(dst []byte) []byte {
	dst = appendOptional(dst, "subagentRunId", s.SubagentRunID)
	return s.Base.appendTail(dst)
}

// lane is where an event belongs: a subagent's id, or "" for the run itself.
func (s *Sub) lane() string { return s.SubagentRunID }

// member reads one of them; others are unknown.
func (b *Base) member(key, raw []byte) error {
	switch string(key) {
	case "timestamp":
		return decodeRounded(&b.Timestamp, raw)
	case "rawEvent":
		return decodeJSON(&b.RawEvent, raw, formValue)
	case "metadata":
		return decodeJSON(&b.Metadata, raw, formObject)
	case "type":
		return nil
	}
	b.Unknown = withUnknown(b.Unknown, key, raw)
	return nil
}

// withUnknown adds a member to an object of members that are not known. One that is null is as if it were absent.
func withUnknown(object json.RawMessage, key, raw []byte) json.RawMessage {
	if isNull(raw) {
		return object
	}
	if len(object) == 0 {
		object = append(object, '{')
	} else {
		object[len(object)-1] = ','
	}
	object = append(AppendString(object, string(key)), ':')
	return append(append(object, raw...), '}')
}

// member reads one of them or the subagent.
func (s *Sub) member(key, raw []byte) error {
	if string(key) == "subagentRunId" {
		return decodeString(&s.SubagentRunID, raw)
	}
	return s.Base.member(key, raw)
}

// laned are the events that can belong to a subagent.
type laned interface {
	Event
	lane() string
}

// laneOf is the lane of any event; those without one belong to the run.
func laneOf(ev Event) string {
	if l, ok := ev.(laned); ok {
		return l.lane()
	}
	return ""
}
