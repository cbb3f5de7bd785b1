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
	AskedUser      string // whose prompt led to it: with FourEyes, who may not decide
	Approvers      []byte // JSON: who may decide; nil leaves it to the Session's user
	FourEyes       bool
	MayEdit        bool   // the arguments
	DelegatedTo    string // a user of the same tenant, who sees and may decide it too
	DelegatedBy    string
	DelegatedUntil time.Time // zero: as long as it is open
	CreatedAt      time.Time
	ExpiresAt      time.Time
	DecidedAt      time.Time
	DecidedBy      string // user of the deciding Principal, or "system"
	DecidedVia     string // surface: chat, rest, expiry, cancel
	Decision       []byte // JSON: what was decided, as the agent will hear it
	EditedArgs     []byte // JSON: Args as the decider changed them
	GrantID        string // the Grant that was made with the decision, or that made it
	Reason         string
}

// ApprovalFilter narrows a listing; empty members do not.
type ApprovalFilter struct {
	Status    ApprovalStatus
	Kind      ApprovalKind
	Tool      string
	SessionID string
	TurnID    string
	// DelegatedTo lists what is delegated to the user, now and in the Scope's tenant,
	// instead of what is the Scope's own. A user's Scope must be that user's.
	DelegatedTo string
}

// ApprovalReader reads Approvals.
type ApprovalReader interface {
	// Approval is seen by whom it is delegated to as well; its ToolCall and Session are not.
	Approval(ctx context.Context, in Scope, id string) (Approval, error)
	// Approvals lists newest first.
	Approvals(ctx context.Context, in Scope, f ApprovalFilter, page Page) ([]Approval, error)
}

// ApprovalTx changes Approvals.
type ApprovalTx interface {
	// InsertApproval fails with ErrConflict when the id is taken.
	InsertApproval(ctx context.Context, a Approval) error
	MoveApproval(ctx context.Context, m ApprovalMove) (bool, error)
	// DelegateApproval is false when the Approval is not PENDING any more.
	DelegateApproval(ctx context.Context, d ApprovalDelegation) (bool, error)
}

// ApprovalDelegation hands an Approval to another user; an empty To takes it back.
type ApprovalDelegation struct {
	ID    string
	To    string
	By    string
	Until time.Time // zero: as long as it is open
}
