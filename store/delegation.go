package store

import (
	"context"
	"time"
)

// Delegation is a standing one: what its giver may decide, another user of the tenant may
// decide as well, from now on and until it ends. Empty members do not narrow it.
type Delegation struct {
	ID     string // UUIDv7
	Tenant string
	User   string // who gives it
	To     string // who may decide as well
	// Wide: the giver had the approver's role, and so what it may decide is the whole tenant's.
	Wide bool
	// Holds is a JSON list of the giver's DeciderNames when it was given: what the policy lets
	// only those approve, the delegate may approve.
	Holds     []byte
	AgentID   string
	Tool      string
	ToolKind  string // of an ACP tool call
	Note      string
	CreatedAt time.Time
	ExpiresAt time.Time // never zero: no delegation is for ever
	RevokedAt time.Time
	RevokedBy string
}

// DelegationReader reads Delegations. A user's Scope sees those that user gave or was given.
type DelegationReader interface {
	Delegation(ctx context.Context, in Scope, id string) (Delegation, error)
	// Delegations lists newest first, the dead ones too.
	Delegations(ctx context.Context, in Scope, page Page) ([]Delegation, error)
	// DelegationsOf lists those by which the user may decide the Approval now, to a Scope that
	// sees everything.
	DelegationsOf(ctx context.Context, in Scope, approvalID, user string) ([]Delegation, error)
}

// DelegationTx changes Delegations.
type DelegationTx interface {
	InsertDelegation(ctx context.Context, d Delegation) error
	// RevokeDelegation is false when it is revoked already, or none the Scope gave.
	RevokeDelegation(ctx context.Context, in Scope, id, by string, at time.Time) (bool, error)
}
