package store

import (
	"context"
	"time"
)

// ApprovalKind is what a person is asked for.
type ApprovalKind string

// The kinds of Approvals.
const (
	ApprovalPermission ApprovalKind = "permission"
	ApprovalInput      ApprovalKind = "input"
)

// Approval is the record of a Question of kind permission or input. It shares its id
// with its ToolCall.
type Approval struct {
	ID             string
	SessionID      string
	TurnID         string
	Kind           ApprovalKind
	Status         ApprovalStatus
	Tool           string
	Title          string
	Args           []byte // JSON as shown
	ArgsSHA256     string // hex
	Options        []byte // JSON array of {id,label,kind}
	ResponseSchema []byte
	Risk           string
	CreatedAt      time.Time
	ExpiresAt      time.Time
	DecidedAt      time.Time
	DecidedBy      string // user of the deciding Principal, or "system"
	DecidedVia     string // surface: chat, rest, expiry, cancel
	Decision       []byte // JSON: what was decided, as the agent will hear it
	Reason         string
}

// ApprovalFilter narrows a listing; empty members do not.
type ApprovalFilter struct {
	Status    ApprovalStatus
	SessionID string
	TurnID    string
}

// ApprovalReader reads Approvals.
type ApprovalReader interface {
	Approval(ctx context.Context, in Scope, id string) (Approval, error)
	// Approvals lists newest first.
	Approvals(ctx context.Context, in Scope, f ApprovalFilter, page Page) ([]Approval, error)
}

// ApprovalTx changes Approvals.
type ApprovalTx interface {
	MoveApproval(ctx context.Context, m ApprovalMove) (bool, error)
}
