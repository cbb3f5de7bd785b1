package store

import (
	"context"
	"time"
)

// OutboxItem is a message that must reach an outside system, at least once.
type OutboxItem struct {
	ID           string // UUIDv7
	SessionID    string // the Session it is about, with which it is deleted; "" when it is about none
	Kind         string
	Target       string // where to, in the words of its Kind
	Payload      []byte // JSON
	CreatedAt    time.Time
	NextAt       time.Time // not before
	Tries        int
	ClaimedUntil time.Time // a sender is at it until then
	DoneAt       time.Time
	LastError    string
}

// OutboxLane names the items of a kind for one target.
type OutboxLane struct{ Kind, Target string }

// OutboxReader reads what is to be sent. Items belong to no user: only a Scope that sees
// everything sees it.
type OutboxReader interface {
	// OutboxLanes lists the lanes of a kind that have items which are not done, MaxPageLimit at most. The kind "" means all
	// kinds.
	OutboxLanes(ctx context.Context, in Scope, kind string) ([]OutboxLane, error)
	// OutboxDue lists the items of a lane that are due and not claimed, the longest due first. Each lane is read by itself, so
	// that a target that does not answer delays no other.
	OutboxDue(ctx context.Context, in Scope, lane OutboxLane, now time.Time, limit int) ([]OutboxItem, error)
	// OutboxOf lists the items of a Session that are not done, due or not.
	OutboxOf(ctx context.Context, in Scope, sessionID string) ([]OutboxItem, error)
}

// NeverDue is the next time of an item that was given up: it stays, with its last error.
func NeverDue() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// OutboxTx changes the outbox.
type OutboxTx interface {
	InsertOutbox(ctx context.Context, i OutboxItem) error
	// ClaimOutbox counts a try of an item as it was read; false when it is done, not due, claimed by another, or was tried
	// since it was read. One whose claimer died is due again when the claim has run out.
	ClaimOutbox(ctx context.Context, i OutboxItem, now, until time.Time) (bool, error)
	OutboxDone(ctx context.Context, id string, at time.Time) error
	// OutboxRetry gives the claim back; what is done stays so.
	OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error
	// DropOutbox deletes what is not to be sent any more and returns how many that were, limit
	// at most: what was done before a time, and what was made before it and is not to be sent
	// before never.
	DropOutbox(ctx context.Context, before, never time.Time, limit int) (int64, error)
}
