package store

import (
	"context"
	"time"
)

// ToolCallKind is who runs a ToolCall.
type ToolCallKind string

// The kinds of ToolCalls.
const (
	KindQuestion ToolCallKind = "question"    // a permission or an input: a person is the tool
	KindClient   ToolCallKind = "client_tool" // the frontend runs it
	KindServer   ToolCallKind = "server_tool" // we run it
)

// OnFailure is what a ToolCall that fails does to its Turn.
type OnFailure string

// What a failure does.
const (
	FailureReturns OnFailure = "return"  // the agent gets the error and goes on; "" means the same
	FailureEndsRun OnFailure = "end_run" // the Turn fails
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
	ArgsSHA256 string // hex, of Args; "" where nothing is bound to them
	Edited     bool   // a person changed Args
	Result     []byte // JSON: what the transcript shows as its result, however it ended
	ErrorCode  string
	Error      []byte // JSON {code,message}: what the agent gets of a failure
	UpstreamID string // the agent's own id of it
	// Event is the value of the CUSTOM on_interrupt by which an AG-UI agent asked, as unchanged JSON; nil for any other call.
	Event []byte

	// IdempotencyKey is the agent's, unique per Turn; "" for none.
	IdempotencyKey string
	Risk           string
	GrantID        string // the Grant that let it through, "" for none
	OnFailure      OnFailure
	Timeout        time.Duration // of running it; 0: the default
	Replica        string        // who runs it, or ran it last
	RunningAt      time.Time     // zero until RUNNING

	// Carded: the Agent had shown the call by its own frames, under this id, when its permission was to be asked for. The card of
	// the Question has an id of its own.
	Carded bool
	// InTranscript: the log (or the client that answered) already holds its TOOL_CALL_RESULT.
	InTranscript bool
	CreatedAt    time.Time
	ExpiresAt    time.Time // zero: never
	EndedAt      time.Time
	DeliveredAt  time.Time // zero until committed, before the agent gets the answer
}

// Ended is the ToolCall as a move that ends it leaves it.
func (c ToolCall) Ended(m ToolCallMove) ToolCall {
	c.Status, c.Result, c.ErrorCode, c.Error, c.EndedAt = m.To, m.Result, m.ErrorCode, m.Error, m.EndedAt
	return c
}

// ToolCallReader reads ToolCalls.
type ToolCallReader interface {
	ToolCall(ctx context.Context, in Scope, id string) (ToolCall, error)
	// OpenToolCalls lists the Session's ToolCalls that wait (WAITING_APPROVAL or
	// WAITING_CLIENT), oldest first.
	OpenToolCalls(ctx context.Context, in Scope, sessionID string) ([]ToolCall, error)
	// OpenToolCallsUnder lists those that wait in the Sessions which go back to a person's Turn, oldest first.
	OpenToolCallsUnder(ctx context.Context, in Scope, rootTurnID string) ([]ToolCall, error)
	// ExpiringToolCalls lists those that wait and have an ExpiresAt, soonest first.
	ExpiringToolCalls(ctx context.Context, in Scope, limit int) ([]ToolCall, error)
	// CountWaiting counts those that wait, of one Turn or, with turnID "", of all; it stops at most.
	CountWaiting(ctx context.Context, in Scope, turnID string, most int) (int, error)
	// ToolCallsOfTurn lists a Turn's ToolCalls, oldest first.
	ToolCallsOfTurn(ctx context.Context, in Scope, turnID string) ([]ToolCall, error)
	// CountToolCalls counts a Turn's ToolCalls, and those of them that have not ended. It reads nothing of what they hold.
	CountToolCalls(ctx context.Context, in Scope, turnID string) (all, underWay int, err error)
	// ToolCallByKey is the one of the Turn that was made with the idempotency key.
	ToolCallByKey(ctx context.Context, in Scope, turnID, key string) (ToolCall, error)
	// ToolCallsByStatus lists those under way in one of the states, oldest first; kind ""
	// means client and server tools. Questions and ended ToolCalls are never listed.
	ToolCallsByStatus(ctx context.Context, in Scope, statuses []ToolCallStatus, kind ToolCallKind, limit int) ([]ToolCall, error)
	// AbandonedToolCalls lists client and server tools that wait (WAITING_APPROVAL or
	// WAITING_CLIENT) although their Turn is over, oldest first.
	AbandonedToolCalls(ctx context.Context, in Scope, limit int) ([]ToolCall, error)
	// OrphanedToolCalls lists RUNNING server tools whose Replica may not write any more, and those of the given replica, oldest
	// first. A dead replica must be fenced before its ToolCalls are orphans. A living one knows which of its own it executes.
	OrphanedToolCalls(ctx context.Context, in Scope, replica string, limit int) ([]ToolCall, error)
}

// ToolCallTx changes ToolCalls.
type ToolCallTx interface {
	// InsertToolCall fails with ErrConflict when the id, or the Turn's idempotency key, is
	// taken.
	InsertToolCall(ctx context.Context, c ToolCall) error
	// MoveToolCall is the compare-and-set; false when the row was not in m.From.
	MoveToolCall(ctx context.Context, m ToolCallMove) (bool, error)
}
