package store

import (
	"context"
	"time"
)

// Share lets a user, or who has a role, of the Session's tenant see the Session. It allows to read.
type Share struct {
	ID        string // UUIDv7
	SessionID string
	Tenant    string
	To        string // "user:NAME" or "role:NAME", as DeciderNames gives them
	Write     bool   // send messages, answer client tools, cancel
	Decide    bool   // decide what its Agents ask
	CreatedBy string
	CreatedAt time.Time
}

// Access is what a user may do with a Session that others own, by all Shares together.
type Access struct {
	Session Session
	Write   bool
	Decide  bool
}

// Scope sees the rows of that Session, and of no other.
func (a Access) Scope() Scope { return Scope{tenant: a.Session.Tenant, session: a.Session.ID} }

// AccessBy is by what id a shared Session is looked for.
type AccessBy struct {
	SessionID  string
	RunID      string // of a Run or Turn, or a client's own runId
	ToolCallID string
}

// ShareReader reads Shares.
type ShareReader interface {
	// Shares lists those of a Session that the Scope sees, oldest first. A Scope of an Access sees none:
	// with whom a thread is shared is its owner's business.
	Shares(ctx context.Context, in Scope, sessionID string) ([]Share, error)
	// Access is what Shares let the Principal do with a Session of others; ErrNotFound without any.
	Access(ctx context.Context, who Principal, by AccessBy) (Access, error)
}

// ShareTx changes Shares.
type ShareTx interface {
	// PutShare replaces the Share of the same Session and To, which keeps its id and its beginning.
	PutShare(ctx context.Context, s Share) error
	// DeleteShare is false when the Session has no such Share.
	DeleteShare(ctx context.Context, sessionID, id string) (bool, error)
}
