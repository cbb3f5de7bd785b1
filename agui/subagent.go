package agui

import "encoding/json"

// SubagentSuspended is the outcome of a subagent that waits for an interrupt.
const SubagentSuspended = "suspended"

// SubagentStarted announces a subagent; later events carry its SubagentRunID.
type SubagentStarted struct {
	Sub
	Name                string
	Description         string
	ParentSubagentRunID string
	ParentToolCallID    string
	ParentMessageID     string
}

// SubagentFinished ends a subagent.
type SubagentFinished struct {
	Sub
	Result  json.RawMessage
	Outcome *SubagentOutcome
}

// SubagentOutcome says how a subagent ended: success, or suspended by
// interrupts of the run. Absent means success.
type SubagentOutcome struct {
	Type         string
	InterruptIDs []string
}

// SubagentError ends a subagent that failed.
type SubagentError struct {
	Sub
	Message string
	Code    string
}

// EventType is SUBAGENT_STARTED.
func (*SubagentStarted) EventType() Type { return TypeSubagentStarted }

// EventType is SUBAGENT_FINISHED.
func (*SubagentFinished) EventType() Type { return TypeSubagentFinished }

// EventType is SUBAGENT_ERROR.
func (*SubagentError) EventType() Type { return TypeSubagentError }

// AppendJSON implements [Event].
func (e *SubagentStarted) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "subagentRunId", e.SubagentRunID)
	dst = appendMember(dst, "name", e.Name)
	dst = appendOptional(dst, "description", e.Description)
	dst = appendOptional(dst, "parentSubagentRunId", e.ParentSubagentRunID)
	dst = appendOptional(dst, "parentToolCallId", e.ParentToolCallID)
	dst = appendOptional(dst, "parentMessageId", e.ParentMessageID)
	return e.Base.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *SubagentFinished) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "subagentRunId", e.SubagentRunID)
	dst = appendOptionalRaw(dst, "result", e.Result)
	if e.Outcome != nil {
		dst = e.Outcome.appendJSON(appendKey(dst, "outcome"))
	}
	return e.Base.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *SubagentError) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "subagentRunId", e.SubagentRunID)
	dst = appendMember(dst, "message", e.Message)
	dst = appendOptional(dst, "code", e.Code)
	return e.Base.appendTail(dst)
}

func (o *SubagentOutcome) appendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "type", o.Type)
	if len(o.InterruptIDs) > 0 {
		dst = appendStrings(dst, "interruptIds", o.InterruptIDs)
	}
	return append(dst, '}')
}

func (e *SubagentStarted) member(key, raw []byte) error {
	switch string(key) {
	case "name":
		return decodeString(&e.Name, raw)
	case "description":
		return decodeString(&e.Description, raw)
	case "parentSubagentRunId":
		return decodeString(&e.ParentSubagentRunID, raw)
	case "parentToolCallId":
		return decodeString(&e.ParentToolCallID, raw)
	case "parentMessageId":
		return decodeString(&e.ParentMessageID, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *SubagentFinished) member(key, raw []byte) error {
	switch string(key) {
	case "result":
		return decodeRaw(&e.Result, raw)
	case "outcome":
		return decodeStruct(&e.Outcome, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *SubagentError) member(key, raw []byte) error {
	switch string(key) {
	case "message":
		return decodeString(&e.Message, raw)
	case "code":
		return decodeString(&e.Code, raw)
	}
	return e.Sub.member(key, raw)
}

func (o *SubagentOutcome) member(key, raw []byte) error {
	switch string(key) {
	case "type":
		return decodeString(&o.Type, raw)
	case "interruptIds":
		return decodeStrings(&o.InterruptIDs, raw)
	}
	return nil
}
