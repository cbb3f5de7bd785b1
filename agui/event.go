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
}

// Sub is the [Base] of the events that may come from a subagent.
type Sub struct {
	Base
	SubagentRunID string // whose event this is; "" is the run's own agent
}

func (b *Base) appendTail(dst []byte) []byte {
	if b.Timestamp != 0 {
		dst = appendInt(appendKey(dst, "timestamp"), b.Timestamp)
	}
	dst = appendOptionalRaw(dst, "rawEvent", b.RawEvent)
	dst = appendOptionalRaw(dst, "metadata", b.Metadata)
	return append(dst, '}')
}

func (s *Sub) appendTail(dst []byte) []byte {
	dst = appendOptional(dst, "subagentRunId", s.SubagentRunID)
	return s.Base.appendTail(dst)
}

// lane is where an event belongs: a subagent's id, or "" for the run itself.
func (s *Sub) lane() string { return s.SubagentRunID }

func (b *Base) member(key, raw []byte) error {
	switch string(key) {
	case "timestamp":
		return decodeRounded(&b.Timestamp, raw)
	case "rawEvent":
		return decodeRaw(&b.RawEvent, raw)
	case "metadata":
		return decodeObject(&b.Metadata, raw)
	}
	return nil
}

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

// blank is a new, empty event of a type, or nil when the type is unknown.
func blank(t Type) decodable {
	switch t {
	case TypeRunStarted:
		return new(RunStarted)
	case TypeRunFinished:
		return new(RunFinished)
	case TypeRunError:
		return new(RunError)
	case TypeStepStarted:
		return new(StepStarted)
	case TypeStepFinished:
		return new(StepFinished)
	case TypeTextMessageStart:
		return new(TextMessageStart)
	case TypeTextMessageContent:
		return new(TextMessageContent)
	case TypeTextMessageEnd:
		return new(TextMessageEnd)
	case TypeTextMessageChunk:
		return new(TextMessageChunk)
	case TypeToolCallStart:
		return new(ToolCallStart)
	case TypeToolCallArgs:
		return new(ToolCallArgs)
	case TypeToolCallEnd:
		return new(ToolCallEnd)
	case TypeToolCallChunk:
		return new(ToolCallChunk)
	case TypeToolCallResult:
		return new(ToolCallResult)
	case TypeStateSnapshot:
		return new(StateSnapshot)
	case TypeStateDelta:
		return new(StateDelta)
	case TypeMessagesSnapshot:
		return new(MessagesSnapshot)
	case TypeActivitySnapshot:
		return new(ActivitySnapshot)
	case TypeActivityDelta:
		return new(ActivityDelta)
	}
	return blankReasoning(t)
}

func blankReasoning(t Type) decodable {
	switch t {
	case TypeReasoningStart:
		return new(ReasoningStart)
	case TypeReasoningEnd:
		return new(ReasoningEnd)
	case TypeReasoningMessageStart:
		return new(ReasoningMessageStart)
	case TypeReasoningMessageContent:
		return new(ReasoningMessageContent)
	case TypeReasoningMessageEnd:
		return new(ReasoningMessageEnd)
	case TypeReasoningMessageChunk:
		return new(ReasoningMessageChunk)
	case TypeReasoningEncryptedValue:
		return new(ReasoningEncryptedValue)
	case TypeRaw:
		return new(Raw)
	case TypeCustom:
		return new(Custom)
	case TypeSubagentStarted:
		return new(SubagentStarted)
	case TypeSubagentFinished:
		return new(SubagentFinished)
	case TypeSubagentError:
		return new(SubagentError)
	}
	return nil
}
