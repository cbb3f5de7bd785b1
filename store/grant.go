package store

import (
	"context"
	"time"
)

// Grant is a standing answer: what a person would be asked for is allowed, here, until
// then, so many times. Empty members do not narrow it.
type Grant struct {
	ID        string // UUIDv7
	Tenant    string
	User      string // whose agents it lets through; "" means every user of the tenant
	AgentID   string
	SessionID string
	Tool      string
	Kind      string // of an ACP tool call
	Match     []byte // JSON: what the arguments must be
	Template  string // the name it was made from together with others
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	MaxUses   int64     // 0: any number
	Uses      int64
	RevokedAt time.Time
	RevokedBy string
	Note      string
}

// GrantReader reads Grants. A user's Scope sees those of that user and those of every user
// of the tenant.
type GrantReader interface {
	Grant(ctx context.Context, in Scope, id string) (Grant, error)
	// Grants lists newest first, the dead ones too.
	Grants(ctx context.Context, in Scope, page Page) ([]Grant, error)
	// LiveGrants lists what could let a ToolCall of the user, agent and Session through now,
	// the user's own before everybody's, each newest first, MaxPageLimit at most: one that is missing only means that a person is
	// asked.
	LiveGrants(ctx context.Context, in Scope, tenant, user, agentID, sessionID string, now time.Time) ([]Grant, error)
}

// GrantTx changes Grants.
type GrantTx interface {
	InsertGrant(ctx context.Context, g Grant) error
	// UseGrant counts one use; false when the Grant is revoked, expired or used up.
	UseGrant(ctx context.Context, id string, now time.Time) (bool, error)
	// RevokeGrant is false when it is revoked already, or none the Scope may revoke: a user
	// only that user's own.
	RevokeGrant(ctx context.Context, in Scope, id, by string, at time.Time) (bool, error)
}
