package store

import (
	"context"
	"time"
)

// Run is the slice of a Session's log from one RUN_STARTED to its terminal event.
// Runs of a Session never overlap: at most one is RUNNING, which the store refuses to break.
type Run struct {
	ID         string // UUIDv7, ours
	SessionID  string
	TurnID     string
	ExternalID string // AG-UI runId, unique per Session
	Status     RunStatus
	Profile    []byte // JSON: the client's profile that decides how the Run ends
	BodyHash   []byte // of the POST that named it; nil when it was not posted
	FirstSeq   int64  // 0 until RUN_STARTED is kept
	LastSeq    int64  // 0 until the terminal event is kept
	ErrorCode  string
	CreatedAt  time.Time
	StartedAt  time.Time
	EndedAt    time.Time
	// ParentRunID is AG-UI's parentRunId: what the client named, or the Run that a branch continues.
	ParentRunID string
	// Tails lists the replicas at which a response tails the Run, each id followed by a space. Of a Run that is over it
	// means nothing.
	Tails string
}

// TailedByChannel, in Tails, stands for a client that reads by a channel: it has no response that could end.
const TailedByChannel = "* "

// StateChange is what one Run changed of the Session's state. Changes is JSON: for each top-level key, hashes of the
// value it had before the Run and of those it had in it.
type StateChange struct {
	RunID   string
	Changes []byte
}

// BrokenRun is a Run that failed or was cancelled.
type BrokenRun struct {
	Run
	ErrorMessage string // of its Turn; "" when that did not fail
}

// RunReader reads Runs.
type RunReader interface {
	Run(ctx context.Context, in Scope, id string) (Run, error)
	RunByExternalID(ctx context.Context, in Scope, sessionID, externalID string) (Run, error)
	// FindRun takes our id or a client's runId of any Session in the Scope; the newest wins.
	FindRun(ctx context.Context, in Scope, idOrExternalID string) (Run, error)
	// LastRun is the newest Run of the Session that has begun (not RESERVED).
	LastRun(ctx context.Context, in Scope, sessionID string) (Run, error)
	// ReservedRuns lists the Session's reserved Runs, oldest first.
	ReservedRuns(ctx context.Context, in Scope, sessionID string) ([]Run, error)
	// RunsWithin lists the Runs whose slices touch the positions from to to, oldest first.
	RunsWithin(ctx context.Context, in Scope, sessionID string, from, to int64) ([]Run, error)
	// RunsOfTurn lists a Turn's Runs in the order they began; reserved ones come last.
	RunsOfTurn(ctx context.Context, in Scope, turnID string) ([]Run, error)
	// BrokenRuns lists the Session's Runs that failed or were cancelled, of those with ids from first to last.
	BrokenRuns(ctx context.Context, in Scope, sessionID, first, last string) ([]BrokenRun, error)
	// StateChanges lists what Runs changed of the Session's state, of those with ids from first on: the oldest
	// MaxPageLimit of them, oldest first.
	StateChanges(ctx context.Context, in Scope, sessionID, first string) ([]StateChange, error)
}

// RunTx changes Runs.
type RunTx interface {
	// InsertRun fails with ErrConflict when the external id is taken in the Session.
	InsertRun(ctx context.Context, r Run) error
	// SetRunTail adds the replica to the Tails of a Run that is not over, or removes it.
	SetRunTail(ctx context.Context, runID, replica string, there bool) error
}
