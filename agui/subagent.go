// This file has the events of subagents: agents that an agent starts within its run, each with a
// lane of its own.

package agui

import "encoding/json"

// SubagentSuspended is the outcome of a subagent that waits for an interrupt.
const SubagentSuspended = "suspended"

// SubagentStarted announces a subagent; later events carry its SubagentRunID.
type SubagentStarted struct {
	Sub                 `agui:",subject"`
	Name                string `agui:"name,required"`
	Description         string `agui:"description"`
	ParentSubagentRunID string `agui:"parentSubagentRunId"`
	ParentToolCallID    string `agui:"parentToolCallId"`
	ParentMessageID     string `agui:"parentMessageId"`
}

// SubagentFinished ends a subagent.
type SubagentFinished struct {
	Sub     `agui:",subject"`
	Result  json.RawMessage  `agui:"result"`
	Outcome *SubagentOutcome `agui:"outcome"`
}

// SubagentOutcome is how a subagent ended: success, or suspended by interrupts of the run. Absent
// means success.
type SubagentOutcome struct {
	Type         string   `agui:"type,always"`
	InterruptIDs []string `agui:"interruptIds"`
}

// SubagentError ends a subagent that failed.
type SubagentError struct {
	Sub     `agui:",subject"`
	Message string `agui:"message,always"`
	Code    string `agui:"code"`
}

// EventType is SUBAGENT_STARTED.
func (*SubagentStarted) EventType() Type { return TypeSubagentStarted }

// appendTail leaves the subagent's id out: the table has written it in front.
func (e *SubagentStarted) appendTail(dst []byte) []byte { return e.Base.appendTail(dst) }

// AppendJSON implements [Event].
func (e *SubagentStarted) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is SUBAGENT_FINISHED.
func (*SubagentFinished) EventType() Type { return TypeSubagentFinished }

// appendTail is as that of SubagentStarted.
func (e *SubagentFinished) appendTail(dst []byte) []byte { return e.Base.appendTail(dst) }

// AppendJSON implements [Event].
func (e *SubagentFinished) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is SUBAGENT_ERROR.
func (*SubagentError) EventType() Type { return TypeSubagentError }

// appendTail is as that of SubagentStarted.
func (e *SubagentError) appendTail(dst []byte) []byte { return e.Base.appendTail(dst) }

// AppendJSON implements [Event].
func (e *SubagentError) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
