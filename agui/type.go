package agui

import "bytes"

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

// Types lists every event type, in the order of the specification.
func Types() []Type {
	return []Type{
		TypeRunStarted, TypeRunFinished, TypeRunError, TypeStepStarted, TypeStepFinished,
		TypeTextMessageStart, TypeTextMessageContent, TypeTextMessageEnd, TypeTextMessageChunk,
		TypeToolCallStart, TypeToolCallArgs, TypeToolCallEnd, TypeToolCallChunk, TypeToolCallResult,
		TypeStateSnapshot, TypeStateDelta, TypeMessagesSnapshot, TypeActivitySnapshot, TypeActivityDelta,
		TypeReasoningStart, TypeReasoningEnd, TypeReasoningMessageStart, TypeReasoningMessageContent,
		TypeReasoningMessageEnd, TypeReasoningMessageChunk, TypeReasoningEncryptedValue,
		TypeRaw, TypeCustom, TypeSubagentStarted, TypeSubagentFinished, TypeSubagentError,
	}
}

// typePrefix is how every event of ours begins.
const typePrefix = `{"type":"`

// TypeOf tells the type of an event in our own encoding, where "type" comes
// first, by looking at its first bytes. It is "" for anything else. The result
// costs no allocation for a type of [Types].
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

// IsTerminal tells whether an encoded event ends its run.
func IsTerminal(event []byte) bool {
	return bytes.HasPrefix(event, []byte(typePrefix+string(TypeRunFinished)+`"`)) ||
		bytes.HasPrefix(event, []byte(typePrefix+string(TypeRunError)+`"`))
}

// internType returns the constant for a known name, so that looking at a type
// does not allocate.
func internType(name []byte) Type {
	switch string(name) {
	case string(TypeRunStarted):
		return TypeRunStarted
	case string(TypeRunFinished):
		return TypeRunFinished
	case string(TypeRunError):
		return TypeRunError
	case string(TypeStepStarted):
		return TypeStepStarted
	case string(TypeStepFinished):
		return TypeStepFinished
	case string(TypeTextMessageStart):
		return TypeTextMessageStart
	case string(TypeTextMessageContent):
		return TypeTextMessageContent
	case string(TypeTextMessageEnd):
		return TypeTextMessageEnd
	case string(TypeTextMessageChunk):
		return TypeTextMessageChunk
	case string(TypeToolCallStart):
		return TypeToolCallStart
	case string(TypeToolCallArgs):
		return TypeToolCallArgs
	case string(TypeToolCallEnd):
		return TypeToolCallEnd
	case string(TypeToolCallChunk):
		return TypeToolCallChunk
	case string(TypeToolCallResult):
		return TypeToolCallResult
	case string(TypeStateSnapshot):
		return TypeStateSnapshot
	case string(TypeStateDelta):
		return TypeStateDelta
	case string(TypeMessagesSnapshot):
		return TypeMessagesSnapshot
	case string(TypeActivitySnapshot):
		return TypeActivitySnapshot
	case string(TypeActivityDelta):
		return TypeActivityDelta
	case string(TypeReasoningStart):
		return TypeReasoningStart
	case string(TypeReasoningEnd):
		return TypeReasoningEnd
	case string(TypeReasoningMessageStart):
		return TypeReasoningMessageStart
	case string(TypeReasoningMessageContent):
		return TypeReasoningMessageContent
	case string(TypeReasoningMessageEnd):
		return TypeReasoningMessageEnd
	case string(TypeReasoningMessageChunk):
		return TypeReasoningMessageChunk
	case string(TypeReasoningEncryptedValue):
		return TypeReasoningEncryptedValue
	case string(TypeRaw):
		return TypeRaw
	case string(TypeCustom):
		return TypeCustom
	case string(TypeSubagentStarted):
		return TypeSubagentStarted
	case string(TypeSubagentFinished):
		return TypeSubagentFinished
	case string(TypeSubagentError):
		return TypeSubagentError
	}
	return Type(name)
}
