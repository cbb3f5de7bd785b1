package store

import (
	"context"
	"time"
)

// Message is one entry of a Session's transcript: what a client sent, or what the
// events of a Run fold to. Data is the AG-UI message whole.
type Message struct {
	ID         string // UUIDv7; the order of the transcript
	SessionID  string
	RunID      string // the Run it began or came out of
	ExternalID string // AG-UI message id, unique per Session
	Role       string
	Output     bool // came out of the Run; false: was sent by a client
	Data       []byte
	CreatedAt  time.Time
}

// MessageReader reads transcripts, oldest first.
type MessageReader interface {
	// Messages returns the newest page.Limit messages before page.Before (an ID), oldest first.
	Messages(ctx context.Context, in Scope, sessionID string, page Page) ([]Message, error)
	// KnownMessageIDs returns which of the external ids the Session already has.
	KnownMessageIDs(ctx context.Context, in Scope, sessionID string, externalIDs []string) (map[string]bool, error)
	// NewestRunOf is the id of the newest Run that one of the messages belongs to; "" when the Session has none of them.
	NewestRunOf(ctx context.Context, in Scope, sessionID string, externalIDs []string) (string, error)
	// LastAnswer is the newest message of the assistant that came out of the Run, or ErrNotFound.
	LastAnswer(ctx context.Context, in Scope, sessionID, runID string) (Message, error)
}

// MessageTx writes messages that clients sent.
type MessageTx interface {
	// InsertMessage does nothing when the external id is known already.
	InsertMessage(ctx context.Context, m Message) error
}
