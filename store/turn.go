package store

import (
	"cmp"
	"context"
	"time"
)

// RunTokenPrefix begins the token a Turn's agent calls with, so that it is never taken for a
// person's.
const RunTokenPrefix = "run_"

// Turn is one prompt given to an Agent until the Agent is done. Its id is the id of
// its first Run; it is what the platform contract calls run_id.
type Turn struct {
	ID        string
	SessionID string
	AgentID   string
	Status    TurnStatus
	Input     []byte // JSON: what the agent is called with, written once at intake
	Roles     []byte // JSON list: of who prompted, as they were then
	// PromptedBy is who prompted, where that is not the Session's owner but a user it is shared with; else "".
	PromptedBy string
	TokenHash  []byte // of the run token the agent calls us with; nil when none is live
	// Upstream is where the Agent is: "" before it is called and when the Turn is over, UpstreamWaits when it ended to
	// wait for answers, UpstreamLost and UpstreamCalling when its call was lost, else the id of the replica that holds
	// its call.
	Upstream string
	// Resumable is set where the Agent can be called again after its call was lost, by its own word.
	Resumable bool
	// Traced is set where all that happens in the Turn is kept as Records when it happens. Of a Turn from before that was
	// so, its rows are read instead.
	Traced bool
	// Traceparent and Tracestate are the W3C trace context that the Turn runs under; empty in a Turn from before
	// they were kept.
	Traceparent  string
	Tracestate   string
	Usage        []byte // JSON, set at the end
	ErrorCode    string
	ErrorMessage string
	CreatedAt    time.Time
	StartedAt    time.Time // zero until RUNNING
	DispatchedAt time.Time // zero until committed before the upstream is called
	EndedAt      time.Time
	// BranchedFrom is, of a Turn that began a branch, the Turn it continues, or BranchedFromStart. "": it continues the
	// Turn that was created before it.
	BranchedFrom string
}

// Waiting reports whether the Agent is called again with answers, and holds no call until then.
func (t Turn) Waiting() bool { return t.Upstream == UpstreamWaits || t.Upstream == UpstreamLost }

// Prompter is the user who prompted the Turn of the Session.
func (t Turn) Prompter(s Session) string { return cmp.Or(t.PromptedBy, s.User) }

// BranchedFromStart is the BranchedFrom of a branch that begins with the thread.
const BranchedFromStart = "-"

// UpstreamWaits is the Upstream of a Turn whose Agent ended to wait: it is called again with the answers.
const UpstreamWaits = "waits"

// UpstreamLost is the Upstream of a Turn whose Resumable Agent lost its call, by a restart of the server, while a Question
// was open: it is called again when no Question is open any more.
const UpstreamLost = "lost"

// UpstreamCalling follows UpstreamLost while the Agent is called again, until it answers. Before that it is not known
// whether the Agent is there, so no approved ToolCall begins in either state.
const UpstreamCalling = "calling"

// UpstreamNone, in a TurnMove, clears the Upstream.
const UpstreamNone = "-"

// TurnReader reads Turns.
type TurnReader interface {
	Turn(ctx context.Context, in Scope, id string) (Turn, error)
	// CountActiveTurns counts the Turns that are QUEUED or RUNNING; it stops at most.
	CountActiveTurns(ctx context.Context, in Scope, most int) (int, error)
	// ActiveTurn is the oldest Turn of the Session that is RUNNING or paused, else the
	// oldest QUEUED one; ErrNotFound when all are over.
	ActiveTurn(ctx context.Context, in Scope, sessionID string) (Turn, error)
	// AgentsOfSession lists the ids of the Agents that the Session's Turns are for.
	AgentsOfSession(ctx context.Context, in Scope, sessionID string) ([]string, error)
	// TurnBefore is the id of the Turn that a Turn continues, "" for the first of its branch.
	TurnBefore(ctx context.Context, in Scope, turnID string) (string, error)
	// ChildTurns lists the Turns that go back to a person's, however deep, oldest first.
	ChildTurns(ctx context.Context, in Scope, rootTurnID string) ([]ChildTurn, error)
	// StrandedTurns lists Turns that nothing moves any more: RUNNING or paused, in a Session that the replica may
	// drive, without a Run that is open or reserved, a command, a ToolCall that waits, or one that was settled and
	// is still to be passed on. There should be none.
	StrandedTurns(ctx context.Context, in Scope, replica string, limit int) ([]Turn, error)
}

// ChildTurn is a Turn of an agent that another agent called.
type ChildTurn struct {
	Turn
	ParentTurnID string
}

// MaxChildTurns bounds how many Turns one prompt of a person may lead to in all, and so what ChildTurns lists.
const MaxChildTurns = 256

// TurnTx changes Turns.
type TurnTx interface {
	InsertTurn(ctx context.Context, t Turn) error
}
