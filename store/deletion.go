package store

import (
	"context"
	"time"
)

// Deleted is a Session that DeleteSession has hidden and that is not removed yet.
type Deleted struct {
	ID     string
	Tenant string
	At     time.Time
}

// DeletionReader lists what is to be removed.
type DeletionReader interface {
	// DeletedSessions lists hidden Sessions, the one hidden longest ago first. Only a Scope that sees everything sees any.
	DeletedSessions(ctx context.Context, in Scope, limit int) ([]Deleted, error)
}

// DeletionTx removes hidden Sessions.
type DeletionTx interface {
	// PurgeSession deletes rows that belong to a hidden Session, a bounded part at a time so that no other writer waits
	// long, and blanks the Session's own row. done is true when no row but that was left. The audit is not touched.
	// A Session that is not hidden is ErrNotFound.
	PurgeSession(ctx context.Context, id string) (done bool, err error)
	// RemoveSession deletes the row of a hidden Session. Its other rows must have been purged.
	RemoveSession(ctx context.Context, id string) error
}
