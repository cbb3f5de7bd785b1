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

// MessagePlace is a Message and where it stands.
type MessagePlace struct {
	Message
	TurnID   string
	Replaced bool // it stands on an older branch only
	// Followed reports that an assistant's or a tool's message comes after it on the current branch.
	Followed bool
	// NewestInput is the ID of the newest user message of the current branch, "" when there is none.
	NewestInput string
}

// MessageReader reads transcripts, oldest first: those of the current branch, unless a method names another.
type MessageReader interface {
	// Messages returns the newest page.Limit messages before page.Before (an ID), oldest first.
	Messages(ctx context.Context, in Scope, sessionID string, page Page) ([]Message, error)
	// Message finds a message by its ID, on whichever branch it is.
	Message(ctx context.Context, in Scope, id string) (Message, error)
	// BranchMessages is Messages for the branch that ends with a Turn, whichever branch is current.
	BranchMessages(ctx context.Context, in Scope, sessionID, turnID string, page Page) ([]Message, error)
	// MessagePlace finds a message by its external id; of several branches the current one comes first, then the newest.
	MessagePlace(ctx context.Context, in Scope, sessionID, externalID string) (MessagePlace, error)
	// InputsOfTurn lists what clients sent to begin a Turn, on whichever branch it is.
	InputsOfTurn(ctx context.Context, in Scope, sessionID, turnID string) ([]Message, error)
	// KnownMessageIDs returns which of the external ids the Session already has, on any branch.
	KnownMessageIDs(ctx context.Context, in Scope, sessionID string, externalIDs []string) (map[string]bool, error)
	// NewestRunOf is the id of the newest Run that one of the messages belongs to; "" when the Session has none of them.
	NewestRunOf(ctx context.Context, in Scope, sessionID string, externalIDs []string) (string, error)
	// LastAnswer is the newest message of the assistant that came out of the Run, or ErrNotFound.
	LastAnswer(ctx context.Context, in Scope, sessionID, runID string) (Message, error)
}

// MessageTx writes messages that clients sent.
type MessageTx interface {
	// InsertMessage does nothing when the external id is known on the current branch already.
	InsertMessage(ctx context.Context, m Message) error
	// SwitchBranch makes the branch current that ends with the Turn from, "" for an empty one. What was added since stands
	// on the older branch only. older reports that from may not be on the branch that is current now.
	SwitchBranch(ctx context.Context, sessionID, from string, older bool) error
}
