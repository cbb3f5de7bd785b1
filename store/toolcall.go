package store

import (
	"context"
	"time"
)

// ToolCallKind says who runs a ToolCall.
type ToolCallKind string

// The kinds of ToolCalls.
const (
	KindQuestion ToolCallKind = "question"    // a permission or an input: a person is the tool
	KindClient   ToolCallKind = "client_tool" // the frontend runs it
	KindServer   ToolCallKind = "server_tool" // we run it
)

// ToolCall is one use of a tool. Its id is the one id of ours: shown as toolCallId,
// and for Questions also interruptId, execution_id and approval_id.
type ToolCall struct {
	ID         string
	SessionID  string
	TurnID     string
	RunID      string // the Run it was shown in, "" until shown
	Name       string
	Kind       ToolCallKind
	Status     ToolCallStatus
	Args       []byte // JSON
	Result     []byte // JSON: what the transcript shows as its result, however it ended
	ErrorCode  string
	UpstreamID string // the agent's own id of it
	// Told: the log (or the client that answered) already holds its TOOL_CALL_RESULT.
	Told        bool
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	EndedAt     time.Time
	DeliveredAt time.Time // zero until committed, before the agent is told the answer
}

// ToolCallReader reads ToolCalls.
type ToolCallReader interface {
	ToolCall(ctx context.Context, in Scope, id string) (ToolCall, error)
	// OpenToolCalls lists the Session's ToolCalls that wait (WAITING_APPROVAL or
	// WAITING_CLIENT), oldest first.
	OpenToolCalls(ctx context.Context, in Scope, sessionID string) ([]ToolCall, error)
	// ExpiringToolCalls lists those that wait and have an ExpiresAt, soonest first.
	ExpiringToolCalls(ctx context.Context, in Scope, limit int) ([]ToolCall, error)
	// ToolCallsOfTurn lists a Turn's ToolCalls, oldest first.
	ToolCallsOfTurn(ctx context.Context, in Scope, turnID string) ([]ToolCall, error)
}

// ToolCallTx changes ToolCalls.
type ToolCallTx interface {
	// MoveToolCall is the compare-and-set; false when the row was not in m.From.
	MoveToolCall(ctx context.Context, m ToolCallMove) (bool, error)
}
