package store

import (
	"context"
	"time"
)

// RunTokenPrefix begins the token a Turn's agent calls with, so that it is never taken for a
// person's.
const RunTokenPrefix = "run_"

// Turn is one prompt given to an Agent until the Agent is done. Its id is the id of
// its first Run; it is what the platform contract calls run_id.
type Turn struct {
	ID           string
	SessionID    string
	AgentID      string
	Status       TurnStatus
	Input        []byte // JSON: what the agent is called with, written once at intake
	Roles        []byte // JSON list: of who prompted, as they were then
	TokenHash    []byte // of the run token the agent calls us with; nil when none is live
	Usage        []byte // JSON, set at the end
	ErrorCode    string
	ErrorMessage string
	CreatedAt    time.Time
	StartedAt    time.Time // zero until RUNNING
	DispatchedAt time.Time // zero until committed before the upstream is called
	EndedAt      time.Time
}

// TurnReader reads Turns.
type TurnReader interface {
	Turn(ctx context.Context, in Scope, id string) (Turn, error)
	// ActiveTurn is the oldest Turn of the Session that is RUNNING or paused, else the
	// oldest QUEUED one; ErrNotFound when all are over.
	ActiveTurn(ctx context.Context, in Scope, sessionID string) (Turn, error)
}

// TurnTx changes Turns.
type TurnTx interface {
	InsertTurn(ctx context.Context, t Turn) error
}
