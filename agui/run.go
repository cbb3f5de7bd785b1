package agui

import "encoding/json"

// The outcomes of a run (AG-UI 1.0, "Run outcome").
const (
	OutcomeSuccess   = "success"
	OutcomeInterrupt = "interrupt"
	OutcomeCancelled = "cancelled"
)

// Version is the AG-UI version this package speaks, told on RUN_STARTED.
const Version = "1.0"

// RunStarted opens a run.
type RunStarted struct {
	Base
	ThreadID        string
	RunID           string
	ProtocolVersion string
	ParentRunID     string
	Input           *RunAgentInput
}

// RunFinished ends a run that did not fail.
type RunFinished struct {
	Base
	ThreadID string
	RunID    string
	Result   json.RawMessage // never null
	Outcome  *Outcome        // absent means success
	Usage    []TokenUsage
}

// RunError ends a run that failed.
type RunError struct {
	Base
	Message string
	Code    string
	Usage   []TokenUsage
}

// Outcome says how a run ended. PendingToolCallIDs belongs to success: the
// calls of this run that the client has to answer. Interrupts belongs to
// interrupt, which has at least one.
type Outcome struct {
	Type               string
	PendingToolCallIDs []string
	Interrupts         []Interrupt
}

// Interrupt is one thing a run waits for.
type Interrupt struct {
	ID             string
	Reason         string
	Message        string
	ToolCallID     string
	ResponseSchema json.RawMessage // a JSON object
	ExpiresAt      string          // ISO 8601
	Metadata       json.RawMessage
	SubagentRunID  string
}

// TokenUsage counts the tokens of one provider's one model. A nil count is
// unknown, which is not zero.
type TokenUsage struct {
	Provider              string
	Model                 string
	InputTokens           *int64
	OutputTokens          *int64
	TotalTokens           *int64
	ReasoningTokens       *int64
	CachedInputTokens     *int64
	CacheWriteInputTokens *int64
}

// EventType is RUN_STARTED.
func (*RunStarted) EventType() Type { return TypeRunStarted }

// EventType is RUN_FINISHED.
func (*RunFinished) EventType() Type { return TypeRunFinished }

// EventType is RUN_ERROR.
func (*RunError) EventType() Type { return TypeRunError }

// AppendJSON implements [Event].
func (e *RunStarted) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "threadId", e.ThreadID)
	dst = appendMember(dst, "runId", e.RunID)
	dst = appendOptional(dst, "protocolVersion", e.ProtocolVersion)
	dst = appendOptional(dst, "parentRunId", e.ParentRunID)
	if e.Input != nil {
		dst = e.Input.AppendJSON(appendKey(dst, "input"))
	}
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *RunFinished) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "threadId", e.ThreadID)
	dst = appendMember(dst, "runId", e.RunID)
	dst = appendOptionalRaw(dst, "result", e.Result)
	if e.Outcome != nil {
		dst = e.Outcome.AppendJSON(appendKey(dst, "outcome"))
	}
	dst = appendUsage(dst, e.Usage)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *RunError) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "message", e.Message)
	dst = appendOptional(dst, "code", e.Code)
	dst = appendUsage(dst, e.Usage)
	return e.appendTail(dst)
}

// AppendJSON appends the outcome as a JSON object.
func (o *Outcome) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "type", o.Type)
	if len(o.PendingToolCallIDs) > 0 {
		dst = appendStrings(dst, "pendingToolCallIds", o.PendingToolCallIDs)
	}
	if len(o.Interrupts) > 0 {
		dst = append(appendKey(dst, "interrupts"), '[')
		for i := range o.Interrupts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.Interrupts[i].AppendJSON(dst)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendJSON appends the interrupt as a JSON object.
func (i *Interrupt) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "id", i.ID)
	dst = appendMember(dst, "reason", i.Reason)
	dst = appendOptional(dst, "message", i.Message)
	dst = appendOptional(dst, "toolCallId", i.ToolCallID)
	dst = appendOptionalRaw(dst, "responseSchema", i.ResponseSchema)
	dst = appendOptional(dst, "expiresAt", i.ExpiresAt)
	dst = appendOptionalRaw(dst, "metadata", i.Metadata)
	dst = appendOptional(dst, "subagentRunId", i.SubagentRunID)
	return append(dst, '}')
}

// AppendJSON appends the counts as a JSON object.
func (u *TokenUsage) AppendJSON(dst []byte) []byte {
	dst = appendOptional(append(dst, '{'), "provider", u.Provider)
	dst = appendOptional(dst, "model", u.Model)
	dst = appendOptionalInt(dst, "inputTokens", u.InputTokens)
	dst = appendOptionalInt(dst, "outputTokens", u.OutputTokens)
	dst = appendOptionalInt(dst, "totalTokens", u.TotalTokens)
	dst = appendOptionalInt(dst, "reasoningTokens", u.ReasoningTokens)
	dst = appendOptionalInt(dst, "cachedInputTokens", u.CachedInputTokens)
	dst = appendOptionalInt(dst, "cacheWriteInputTokens", u.CacheWriteInputTokens)
	return append(dst, '}')
}

func appendUsage(dst []byte, usage []TokenUsage) []byte {
	if len(usage) == 0 {
		return dst
	}
	dst = append(appendKey(dst, "usage"), '[')
	for i := range usage {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = usage[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

func (e *RunStarted) member(key, raw []byte) error {
	switch string(key) {
	case "threadId":
		return decodeString(&e.ThreadID, raw)
	case "runId":
		return decodeString(&e.RunID, raw)
	case "protocolVersion":
		return decodeString(&e.ProtocolVersion, raw)
	case "parentRunId":
		return decodeString(&e.ParentRunID, raw)
	case "input":
		return decodeStruct(&e.Input, raw)
	}
	return e.Base.member(key, raw)
}

func (e *RunFinished) member(key, raw []byte) error {
	switch string(key) {
	case "threadId":
		return decodeString(&e.ThreadID, raw)
	case "runId":
		return decodeString(&e.RunID, raw)
	case "result":
		return decodeRaw(&e.Result, raw)
	case "outcome":
		return decodeStruct(&e.Outcome, raw)
	case "usage":
		return decodeList(&e.Usage, raw)
	}
	return e.Base.member(key, raw)
}

func (e *RunError) member(key, raw []byte) error {
	switch string(key) {
	case "message":
		return decodeString(&e.Message, raw)
	case "code":
		return decodeString(&e.Code, raw)
	case "usage":
		return decodeList(&e.Usage, raw)
	}
	return e.Base.member(key, raw)
}

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

func (o *Outcome) member(key, raw []byte) error {
	switch string(key) {
	case "type":
		return decodeString(&o.Type, raw)
	case "pendingToolCallIds":
		return decodeStrings(&o.PendingToolCallIDs, raw)
	case "interrupts":
		return decodeList(&o.Interrupts, raw)
	}
	return nil
}

func (i *Interrupt) member(key, raw []byte) error {
	switch string(key) {
	case "id":
		return decodeString(&i.ID, raw)
	case "reason":
		return decodeString(&i.Reason, raw)
	case "message":
		return decodeString(&i.Message, raw)
	case "toolCallId":
		return decodeString(&i.ToolCallID, raw)
	case "responseSchema":
		return decodeObject(&i.ResponseSchema, raw)
	case "expiresAt":
		return decodeString(&i.ExpiresAt, raw)
	case "metadata":
		return decodeObject(&i.Metadata, raw)
	case "subagentRunId":
		return decodeString(&i.SubagentRunID, raw)
	}
	return nil
}

func (u *TokenUsage) member(key, raw []byte) error {
	switch string(key) {
	case "provider":
		return decodeString(&u.Provider, raw)
	case "model":
		return decodeString(&u.Model, raw)
	case "inputTokens":
		return decodeCount(&u.InputTokens, raw)
	case "outputTokens":
		return decodeCount(&u.OutputTokens, raw)
	case "totalTokens":
		return decodeCount(&u.TotalTokens, raw)
	case "reasoningTokens":
		return decodeCount(&u.ReasoningTokens, raw)
	case "cachedInputTokens":
		return decodeCount(&u.CachedInputTokens, raw)
	case "cacheWriteInputTokens":
		return decodeCount(&u.CacheWriteInputTokens, raw)
	}
	return nil
}
