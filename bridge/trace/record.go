package trace

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"aqueduct/store"
)

// The types of the platform's Records. docs/trace.md and server/openapi.json describe the payload of each.
const (
	UserInput          = "user_input"
	RunStarted         = "run_started"
	RunDone            = "run_done"
	RunFailed          = "run_failed"
	AgentInvokeStarted = "agent_invoke_started"
	AgentInvokeDone    = "agent_invoke_done"
	AgentCalledChild   = "agent_called_child"
	LLMCallStarted     = "llm_call_started"
	LLMCallDone        = "llm_call_done"
	ContextWritten     = "context_written"
	ContextDeleted     = "context_deleted"
	ToolCallCreated    = "tool_call_created"
	PolicyDecision     = "policy_decision" // the payload is a policy.Decision
	ToolDispatched     = "tool_dispatched"
	ToolResult         = "tool_result"
	ApprovalCreated    = "approval_created"
	ApprovalDecision   = "approval_decision"
	ApprovalChanged    = "approval_arguments_changed"
)

// MaxValue bounds an argument, a result or a message in a payload, in bytes. The whole stands on the row of the tool
// call or message: keeping large values twice would double what a flood of calls writes.
const MaxValue = 16 << 10

// Record is a platform Record of a Turn.
func Record(kind, sessionID, turnID string, at time.Time, payload any) store.Record {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("trace: " + err.Error()) // payloads are of our own types, or JSON that was checked
	}
	return store.Record{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: sessionID, TurnID: turnID, Source: store.SourcePlatform, Type: kind,
		TS: at, Payload: raw,
	}
}

// Input is the payload of user_input.
type Input struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	// Truncated is set when Content is only the beginning of the message's text; Bytes is the length of the whole as JSON.
	Truncated bool `json:"truncated,omitempty"`
	Bytes     int  `json:"bytes,omitempty"`
}

// CalledChild is the payload of agent_called_child.
type CalledChild struct {
	RunID     string   `json:"child_run_id"`
	SessionID string   `json:"child_session_id"`
	AgentID   string   `json:"agent_id"`
	Path      []string `json:"path"` // the agents from the root's to the one that is called
}

// InputOf is the payload for a message. Of a large one only the beginning of its text is in it: pictures stay in the
// message.
func InputOf(id, role, text string, content json.RawMessage) Input {
	in := Input{ID: id, Role: role, Content: content}
	if len(content) <= MaxValue {
		return in
	}
	in.Truncated, in.Bytes = true, len(content)
	in.Content, _ = json.Marshal(cut(text)) // a text always can be written
	return in
}

// cut is the beginning of a text, without half a character at its end.
func cut(text string) string {
	if len(text) <= MaxValue {
		return text
	}
	n := MaxValue
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Started is the payload of run_started.
type Started struct {
	AgentID     string `json:"agent_id"`
	UserID      string `json:"user_id,omitempty"`
	Unprompted  bool   `json:"unprompted,omitempty"` // the agent spoke by itself
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate,omitempty"`
	ParentSpan  string `json:"parent_span_id,omitempty"` // of the request's own traceparent
}

// TurnEnd is the payload of run_done and run_failed.
type TurnEnd struct {
	Status     string          `json:"status"`
	Code       string          `json:"code,omitempty"`
	Message    string          `json:"message,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	DurationMS int64           `json:"duration_ms"`     // from the prompt to the end
	PausedMS   int64           `json:"paused_ms"`       // of these, while a question was open
	Frame      *FrameError     `json:"frame,omitempty"` // the agent's frame that could not be read
}

// Why an agent was called.
const (
	BecausePrompt  = "prompt"
	BecauseAnswers = "answers"
	BecauseSpoke   = "unprompted"
)

// Invoked is the payload of agent_invoke_started.
type Invoked struct {
	AgentID     string `json:"agent_id"`
	Reason      string `json:"reason"`
	Traceparent string `json:"traceparent"` // as the agent was given it
}

// How a call of an agent ended.
const (
	InvokeDone      = "done"
	InvokeWaiting   = "waiting" // to be called again with answers
	InvokeFailed    = "failed"
	InvokeCancelled = "cancelled"
)

// InvokeEnded is the payload of agent_invoke_done.
type InvokeEnded struct {
	AgentID    string `json:"agent_id"`
	Status     string `json:"status"`
	Code       string `json:"code,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// Asked is the payload of approval_created. The id of an approval is that of the tool call that it is about.
type Asked struct {
	ApprovalID string          `json:"approval_id"`
	ToolCallID string          `json:"tool_call_id"`
	ToolName   string          `json:"tool_name"`
	Kind       string          `json:"kind"`
	Title      string          `json:"title"`
	Risk       string          `json:"risk,omitempty"`
	ArgsSHA256 string          `json:"args_sha256"`
	Options    json.RawMessage `json:"options,omitempty"`
	ExpiresAt  int64           `json:"expires_at,omitempty"` // 0 for one that does not expire
}

// ApprovalRecord is approval_created. The arguments are not in it: tool_call_created has them, or the Question's row.
func ApprovalRecord(a store.Approval) store.Record {
	asked := Asked{
		ApprovalID: a.ID, ToolCallID: a.ID, ToolName: a.Tool, Kind: string(a.Kind), Title: a.Title, Risk: a.Risk, ArgsSHA256: a.ArgsSHA256,
		Options: a.Options,
	}
	if !a.ExpiresAt.IsZero() {
		asked.ExpiresAt = a.ExpiresAt.UnixMilli()
	}
	return Record(ApprovalCreated, a.SessionID, a.TurnID, a.CreatedAt, asked)
}

// Decided is the payload of approval_decision.
type Decided struct {
	ApprovalID   string          `json:"approval_id"`
	ToolCallID   string          `json:"tool_call_id"`
	ToolName     string          `json:"tool_name"`
	Kind         string          `json:"kind"`
	Status       string          `json:"status"`
	Decision     json.RawMessage `json:"decision"`
	By           string          `json:"decided_by"`
	Via          string          `json:"decided_via"`
	Reason       string          `json:"reason,omitempty"`
	EditedSHA256 string          `json:"edited_sha256,omitempty"`
	WaitedMS     int64           `json:"waited_ms"`
}
