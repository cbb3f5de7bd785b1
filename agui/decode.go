package agui

import "encoding/json"

// decodable is an event that can be filled from its members.
type decodable interface {
	Event
	membered
}

// Decode reads an upstream's event, tolerantly: null is absent, unknown members
// are dropped, fractions of timestamps are rounded, and the retired THINKING_*
// events become REASONING_* (without ids, which [Grammar.Admit] supplies). What
// is left malformed is an [*InputError]; an unknown type is an
// [*UnknownTypeError].
func Decode(event []byte) (Event, error) {
	if !json.Valid(event) {
		return nil, wrong("not valid JSON")
	}
	name, err := typeName(event)
	if err != nil {
		return nil, err
	}
	t, legacy := translated(name)
	ev := blank(t)
	if ev == nil {
		return nil, &UnknownTypeError{Type: string(name)}
	}
	if err := walk(event, ev); err != nil {
		return nil, err
	}
	if absent := missing(ev); absent != "" && !legacy {
		return nil, within(absent, wrong("is required"))
	}
	return ev, nil
}

// typeName finds "type" wherever it stands.
func typeName(event []byte) (Type, error) {
	if t := TypeOf(event); t != "" {
		return t, nil
	}
	var s string
	err := EachMember(event, func(key, raw []byte) error {
		if string(key) == "type" {
			return decodeString(&s, raw)
		}
		return nil
	})
	if err == nil && s == "" {
		err = within("type", wrong("is required"))
	}
	return Type(s), err
}

// translated gives a retired type its successor (AG-UI 1.0, "Deprecations").
func translated(t Type) (successor Type, legacy bool) {
	switch t {
	case "THINKING_START":
		return TypeReasoningStart, true
	case "THINKING_END":
		return TypeReasoningEnd, true
	case "THINKING_TEXT_MESSAGE_START":
		return TypeReasoningMessageStart, true
	case "THINKING_TEXT_MESSAGE_CONTENT":
		return TypeReasoningMessageContent, true
	case "THINKING_TEXT_MESSAGE_END":
		return TypeReasoningMessageEnd, true
	}
	return t, false
}

// missing names a required member that is empty and without which the event
// means nothing. Thread and run ids are not among them: adapters forget them,
// and whoever runs the upstream knows them anyway.
func missing(ev Event) string {
	switch e := ev.(type) {
	case *TextMessageStart:
		return lacks("messageId", e.MessageID)
	case *TextMessageContent:
		return lacks("messageId", e.MessageID)
	case *TextMessageEnd:
		return lacks("messageId", e.MessageID)
	case *ToolCallStart:
		return lacks("toolCallId", e.ToolCallID, "toolCallName", e.ToolCallName)
	case *ToolCallArgs:
		return lacks("toolCallId", e.ToolCallID)
	case *ToolCallEnd:
		return lacks("toolCallId", e.ToolCallID)
	case *ToolCallResult:
		return lacks("messageId", e.MessageID, "toolCallId", e.ToolCallID)
	case *StateSnapshot:
		return lacks("snapshot", string(e.Snapshot))
	case *StateDelta:
		return lacks("delta", string(e.Delta))
	case *ActivitySnapshot:
		return lacks("messageId", e.MessageID, "activityType", e.ActivityType, "content", string(e.Content))
	case *ActivityDelta:
		return lacks("messageId", e.MessageID, "activityType", e.ActivityType, "patch", string(e.Patch))
	}
	return missingElse(ev)
}

func missingElse(ev Event) string {
	switch e := ev.(type) {
	case *StepStarted:
		return lacks("stepName", e.StepName)
	case *StepFinished:
		return lacks("stepName", e.StepName)
	case *ReasoningStart:
		return lacks("messageId", e.MessageID)
	case *ReasoningEnd:
		return lacks("messageId", e.MessageID)
	case *ReasoningMessageStart:
		return lacks("messageId", e.MessageID)
	case *ReasoningMessageContent:
		return lacks("messageId", e.MessageID)
	case *ReasoningMessageEnd:
		return lacks("messageId", e.MessageID)
	case *ReasoningEncryptedValue:
		return lacks("subtype", e.Subtype, "entityId", e.EntityID)
	case *Custom:
		return lacks("name", e.Name)
	case *SubagentStarted:
		return lacks("subagentRunId", e.SubagentRunID, "name", e.Name)
	case *SubagentFinished:
		return lacks("subagentRunId", e.SubagentRunID)
	case *SubagentError:
		return lacks("subagentRunId", e.SubagentRunID)
	}
	return ""
}

// lacks takes names and values in turn and returns the first name whose value
// is empty.
func lacks(pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return pairs[i]
		}
	}
	return ""
}
