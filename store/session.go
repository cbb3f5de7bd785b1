package store

import (
	"context"
	"encoding/json"
	"time"
)

// Session is one conversation: AG-UI's thread. Its Events are the truth; State is the
// agent state as of the end of its last finished Run, kept so that a join need not
// replay the whole log.
type Session struct {
	ID         string
	Tenant     string
	User       string
	ExternalID string // the client's threadId, unique per tenant and user
	AgentID    string
	Title      string
	State      []byte // JSON object, nil when no state was ever set
	Owner      string // replica id of the one writer, "" when none drives it
	CreatedAt  time.Time
	UpdatedAt  time.Time
	// ParentTurnID is the Turn whose agent called this Session's, and RootTurnID the Turn of a person's prompt that it
	// goes back to; both "" for a thread of a person's.
	ParentTurnID string
	RootTurnID   string
	Archived     bool   // its user has archived it
	Callers      []byte // JSON array of Caller, from the root to the agent that called; nil for a thread of a person's
}

// Caller is one agent on the way from a person's prompt to an agent that was called by another.
type Caller struct {
	AgentID   string `json:"agent_id"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
}

// IsChild reports whether an agent began the Session by calling its agent. No list shows such a Session.
func (s Session) IsChild() bool { return s.ParentTurnID != "" }

// CallerList decodes Callers. What cannot be decoded, which no program of ours writes, is an empty list.
func (s Session) CallerList() []Caller {
	var list []Caller
	if json.Unmarshal(s.Callers, &list) != nil {
		return nil
	}
	return list
}

// SessionReader reads Sessions. A deleted Session is ErrNotFound.
type SessionReader interface {
	Session(ctx context.Context, in Scope, id string) (Session, error)
	SessionByExternalID(ctx context.Context, in Scope, externalID string) (Session, error)
	// Sessions lists newest UpdatedAt first, without those that agents began.
	Sessions(ctx context.Context, in Scope, page Page) ([]Session, error)
	// SessionsArchived lists as Sessions does, for one user's Scope: only archived Sessions, or only the others. A Session
	// that is shared with the user never counts as archived, because only its owner archives it.
	SessionsArchived(ctx context.Context, in Scope, archived bool, page Page) ([]Session, error)
	// SessionsWithWork lists ids of Sessions that have a reserved Run, a pending command, a Run left RUNNING, a settled
	// Question to be passed on, or a Turn whose Agent another replica called, and whose owner is the given replica,
	// no replica, or a fenced one.
	SessionsWithWork(ctx context.Context, in Scope, replica string) ([]string, error)
	// SessionsWithCommands lists those of SessionsWithWork that have a pending command, other than one to append. It costs
	// less, and is for those who look more often.
	SessionsWithCommands(ctx context.Context, in Scope, replica string) ([]string, error)
	// AbandonedSessions lists ids of Sessions that have a Turn under way, a reserved or
	// RUNNING Run or a pending command, and whose owner is no replica or a fenced one.
	// Unlike SessionsWithWork it includes those whose Turn only waits for an answer.
	AbandonedSessions(ctx context.Context, in Scope) ([]string, error)
}

// SessionTx changes Sessions.
type SessionTx interface {
	// InsertSession fails with ErrConflict when the external id is taken.
	InsertSession(ctx context.Context, s Session) error
	// LockSession reads the row and holds it against other transactions until the end.
	// Every request against a Session begins with it, so requests are serial per Session.
	LockSession(ctx context.Context, in Scope, id string) (Session, error)
	// ClaimSession makes replica the owner if no replica, itself, or a fenced one is;
	// false when a living replica owns it.
	ClaimSession(ctx context.Context, id, replica string) (bool, error)
	// ReleaseSession makes no replica the owner, where replica is and no agent's call began the Session.
	ReleaseSession(ctx context.Context, id, replica string) error
	// HandSession makes a living replica the owner of a Session that another one owns; false where that is not so.
	HandSession(ctx context.Context, id, from, to string) (bool, error)
	// ReplicaLives reports whether the replica may write.
	ReplicaLives(ctx context.Context, replica string) (bool, error)
	SetSessionTitle(ctx context.Context, id, title string) error
	// SetSessionArchived archives a Session, or restores it.
	SetSessionArchived(ctx context.Context, id string, archived bool) error
	// NoteDropped marks that the Session's client was warned of messages that were not taken; false when it was before.
	NoteDropped(ctx context.Context, id string) (bool, error)
	// DeleteSession hides the Session, those that its agents began, and their rows from every read, and frees its external id. See DeletionTx for the rest.
	DeleteSession(ctx context.Context, id string, at time.Time) error
}
