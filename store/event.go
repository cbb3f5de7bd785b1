package store

import (
	"context"
	"time"
)

// EventRow holds what one Session appended in one commit: N events, the last at
// LastSeq, as compact JSON texts joined by "\n", "type" first in each.
type EventRow struct {
	SessionID string
	LastSeq   int64
	N         int
	TS        time.Time
	Data      []byte
	// Cursor names the place in its upstream's words that the row's events reach to, "" when
	// the upstream has none.
	Cursor string
}

// FirstSeq is the position of the row's first event.
func (r EventRow) FirstSeq() int64 { return r.LastSeq - int64(r.N) + 1 }

// CutLog is a Session whose log had overlapping rows, from before the database refused them. The rows after the position After
// were moved out of the log.
type CutLog struct {
	SessionID, ExternalID string
	After                 int64
}

// EventReader reads a Session's log.
type EventReader interface {
	// Events returns whole rows, in order and without a hole, that hold events after
	// the position, until maxBytes are passed (at least one row if there is one). A row
	// may begin before the position; the caller skips.
	Events(ctx context.Context, in Scope, sessionID string, after int64, maxBytes int) ([]EventRow, error)
	// LastSeq is the position of the newest event, 0 for an empty log.
	LastSeq(ctx context.Context, in Scope, sessionID string) (int64, error)
	// EventBytes is how many bytes of a Session's log are kept.
	EventBytes(ctx context.Context, in Scope, sessionID string) (int64, error)
	// TenantBytes is how many bytes of the logs of all of a tenant's Sessions are kept, as of the last Run of each that ended.
	// Only a Scope that sees everything sees it.
	TenantBytes(ctx context.Context, in Scope, tenant string) (int64, error)
	// LastCursor is the newest Cursor of the log that is not "", "" when there is none.
	LastCursor(ctx context.Context, in Scope, sessionID string) (string, error)
}
