// This file names the types of events and recognises them in encoded events without decoding.

package agui

import (
	"bytes"
	"reflect"
)

// Type is the discriminator of an event, its "type" member.
type Type string

// The event types of AG-UI 1.0.
const (
	TypeRunStarted              Type = "RUN_STARTED"
	TypeRunFinished             Type = "RUN_FINISHED"
	TypeRunError                Type = "RUN_ERROR"
	TypeStepStarted             Type = "STEP_STARTED"
	TypeStepFinished            Type = "STEP_FINISHED"
	TypeTextMessageStart        Type = "TEXT_MESSAGE_START"
	TypeTextMessageContent      Type = "TEXT_MESSAGE_CONTENT"
	TypeTextMessageEnd          Type = "TEXT_MESSAGE_END"
	TypeTextMessageChunk        Type = "TEXT_MESSAGE_CHUNK"
	TypeToolCallStart           Type = "TOOL_CALL_START"
	TypeToolCallArgs            Type = "TOOL_CALL_ARGS"
	TypeToolCallEnd             Type = "TOOL_CALL_END"
	TypeToolCallChunk           Type = "TOOL_CALL_CHUNK"
	TypeToolCallResult          Type = "TOOL_CALL_RESULT"
	TypeStateSnapshot           Type = "STATE_SNAPSHOT"
	TypeStateDelta              Type = "STATE_DELTA"
	TypeMessagesSnapshot        Type = "MESSAGES_SNAPSHOT"
	TypeActivitySnapshot        Type = "ACTIVITY_SNAPSHOT"
	TypeActivityDelta           Type = "ACTIVITY_DELTA"
	TypeReasoningStart          Type = "REASONING_START"
	TypeReasoningEnd            Type = "REASONING_END"
	TypeReasoningMessageStart   Type = "REASONING_MESSAGE_START"
	TypeReasoningMessageContent Type = "REASONING_MESSAGE_CONTENT"
	TypeReasoningMessageEnd     Type = "REASONING_MESSAGE_END"
	TypeReasoningMessageChunk   Type = "REASONING_MESSAGE_CHUNK"
	TypeReasoningEncryptedValue Type = "REASONING_ENCRYPTED_VALUE"
	TypeRaw                     Type = "RAW"
	TypeCustom                  Type = "CUSTOM"
	TypeSubagentStarted         Type = "SUBAGENT_STARTED"
	TypeSubagentFinished        Type = "SUBAGENT_FINISHED"
	TypeSubagentError           Type = "SUBAGENT_ERROR"
)

// eventKinds has an event of each type, in the order of the specification. Only the types of the nil pointers count.
func eventKinds() []Event {
	return []Event{
		(*RunStarted)(nil), (*RunFinished)(nil), (*RunError)(nil), (*StepStarted)(nil), (*StepFinished)(nil),
		(*TextMessageStart)(nil), (*TextMessageContent)(nil), (*TextMessageEnd)(nil), (*TextMessageChunk)(nil),
		(*ToolCallStart)(nil), (*ToolCallArgs)(nil), (*ToolCallEnd)(nil), (*ToolCallChunk)(nil), (*ToolCallResult)(nil),
		(*StateSnapshot)(nil), (*StateDelta)(nil), (*MessagesSnapshot)(nil), (*ActivitySnapshot)(nil), (*ActivityDelta)(nil),
		(*ReasoningStart)(nil), (*ReasoningEnd)(nil), (*ReasoningMessageStart)(nil), (*ReasoningMessageContent)(nil),
		(*ReasoningMessageEnd)(nil), (*ReasoningMessageChunk)(nil), (*ReasoningEncryptedValue)(nil),
		(*Raw)(nil), (*Custom)(nil), (*SubagentStarted)(nil), (*SubagentFinished)(nil), (*SubagentError)(nil),
	}
}

// Types lists every event type, in the order of the specification.
func Types() []Type {
	var types []Type
	for _, ev := range eventKinds() {
		types = append(types, ev.EventType())
	}
	return types
}

// Blank returns a new, empty event of a type, or nil for an unknown type.
func Blank(t Type) Event { return blank(t) }

// blank is a new, empty event of a type, or nil when the type is unknown.
func blank(t Type) Event {
	switch t { // the bulk of every stream
	case TypeTextMessageContent:
		return new(TextMessageContent)
	case TypeToolCallArgs:
		return new(ToolCallArgs)
	case TypeReasoningMessageContent:
		return new(ReasoningMessageContent)
	}
	if e, ok := tables.events[string(t)]; ok {
		return reflect.New(e.of).Interface().(Event)
	}
	return nil
}

// typePrefix is how every encoded event begins.
const typePrefix = `{"type":"`

// TypeOf is the type of an event in this package's encoding, where "type" comes first, by looking at
// its first bytes. It is "" for anything else. The result costs no allocation for a type of [Types].
// The first bytes are enough because every encoder of this package writes "type" first; a foreign
// event may have it elsewhere, and Decode looks for it there.
func TypeOf(event []byte) Type {
	if len(event) < len(typePrefix) || string(event[:len(typePrefix)]) != typePrefix {
		return ""
	}
	rest := event[len(typePrefix):]
	for i, c := range rest {
		if c == '"' {
			return internType(rest[:i])
		}
	}
	return ""
}

// IsTerminal reports whether an encoded event ends its run. A reader of a log asks this for every
// event, so it compares bytes and does not decode. The closing quote keeps a longer name from
// matching.
func IsTerminal(event []byte) bool {
	return bytes.HasPrefix(event, []byte(typePrefix+string(TypeRunFinished)+`"`)) ||
		bytes.HasPrefix(event, []byte(typePrefix+string(TypeRunError)+`"`))
}

// internType returns the constant for a known name, so that looking at a type
// does not allocate.
func internType(name []byte) Type {
	switch string(name) { // the bulk of every stream
	case string(TypeTextMessageContent):
		return TypeTextMessageContent
	case string(TypeToolCallArgs):
		return TypeToolCallArgs
	case string(TypeReasoningMessageContent):
		return TypeReasoningMessageContent
	}
	if e, ok := tables.events[string(name)]; ok {
		return e.name
	}
	return Type(name)
}
