// This file has the events that begin and end a run, and how a run ends.

package agui

import "encoding/json"

// The outcomes of a run (AG-UI 1.0, "Run outcome").
const (
	OutcomeSuccess   = "success"
	OutcomeInterrupt = "interrupt"
	OutcomeCancelled = "cancelled"
)

// Version is the AG-UI version this package implements, sent on RUN_STARTED.
const Version = "1.0"

// RunStarted opens a run.
type RunStarted struct {
	Base
	ThreadID        string         `agui:"threadId,always"`
	RunID           string         `agui:"runId,always"`
	ProtocolVersion string         `agui:"protocolVersion"`
	ParentRunID     string         `agui:"parentRunId"`
	Input           *RunAgentInput `agui:"input"`
}

// RunFinished ends a run that did not fail.
type RunFinished struct {
	Base
	ThreadID string          `agui:"threadId,always"`
	RunID    string          `agui:"runId,always"`
	Result   json.RawMessage `agui:"result"`  // never null
	Outcome  *Outcome        `agui:"outcome"` // absent means success
	Usage    []TokenUsage    `agui:"usage"`
}

// RunError ends a run that failed.
type RunError struct {
	Base
	Message string       `agui:"message,always"`
	Code    string       `agui:"code"`
	Usage   []TokenUsage `agui:"usage"`
}

// Outcome is how a run ended. PendingToolCallIDs belongs to success: the
// calls of this run that the client has to answer. Interrupts belongs to
// interrupt, which has at least one.
type Outcome struct {
	Type               string      `agui:"type,always"`
	PendingToolCallIDs []string    `agui:"pendingToolCallIds"`
	Interrupts         []Interrupt `agui:"interrupts"`
}

// Interrupt is one thing a run waits for.
type Interrupt struct {
	ID             string          `agui:"id,always"`
	Reason         string          `agui:"reason,always"`
	Message        string          `agui:"message"`
	ToolCallID     string          `agui:"toolCallId"`
	ResponseSchema json.RawMessage `agui:"responseSchema,object"` // a JSON object
	ExpiresAt      string          `agui:"expiresAt"`             // ISO 8601
	Metadata       json.RawMessage `agui:"metadata,object"`
	SubagentRunID  string          `agui:"subagentRunId"`
}

// TokenUsage counts the tokens of one provider's one model. A nil count is
// unknown, which is not zero.
type TokenUsage struct {
	Provider              string `agui:"provider"`
	Model                 string `agui:"model"`
	InputTokens           *int64 `agui:"inputTokens"`
	OutputTokens          *int64 `agui:"outputTokens"`
	TotalTokens           *int64 `agui:"totalTokens"`
	ReasoningTokens       *int64 `agui:"reasoningTokens"`
	CachedInputTokens     *int64 `agui:"cachedInputTokens"`
	CacheWriteInputTokens *int64 `agui:"cacheWriteInputTokens"`
	// CountedBy is our extension of AG-UI: it names the source of a count, where usage has two. Rows of Turns have it. Events
	// do not, because the official client removes it and warns; their metadata has it (CountedByKey).
	CountedBy string `agui:"countedBy"`
}

// CountedByKey names a metadata member of RUN_FINISHED and RUN_ERROR: a list with the CountedBy of each element of usage.
const CountedByKey = "aqueduct.countedBy"

// Values of TokenUsage.CountedBy.
const (
	CountedByAgent = "agent" // reported by the agent
	CountedByProxy = "proxy" // counted by the model proxy
)

// EventType is RUN_STARTED.
func (*RunStarted) EventType() Type { return TypeRunStarted }

// AppendJSON implements [Event].
func (e *RunStarted) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is RUN_FINISHED.
func (*RunFinished) EventType() Type { return TypeRunFinished }

// AppendJSON implements [Event].
func (e *RunFinished) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is RUN_ERROR.
func (*RunError) EventType() Type { return TypeRunError }

// AppendJSON implements [Event].
func (e *RunError) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// complete leaves out an outcome of a type that is not known, as a consumer of AG-UI 1.0
// does: how the run ended in particular is lost, that it ended is not.
func (e *RunFinished) complete() error {
	if e.Outcome == nil {
		return nil
	}
	switch e.Outcome.Type {
	case OutcomeSuccess, OutcomeInterrupt, OutcomeCancelled:
		return nil
	case "":
		return within("outcome", within("type", wrong("is required")))
	}
	e.Outcome = nil
	return nil
}

// AppendJSON appends the counts as a JSON object.
func (u *TokenUsage) AppendJSON(dst []byte) []byte { return appendObject(dst, u) }
