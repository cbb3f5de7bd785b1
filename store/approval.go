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
	ToolKind       string // what ACP calls the tool's kind: read, edit, execute, …; "" when unknown
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
	Decision       []byte // JSON: what was decided, as the agent will get it
	EditedArgs     []byte // JSON: Args as the decider changed them
	// Proposed are arguments that ProposedBy wants instead, as shown, and ProposedSHA256 the hash of what would run. A second
	// person has to approve them.
	Proposed       []byte
	ProposedSHA256 string // hex
	ProposedBy     string
	GrantID        string // the Grant that was made with the decision, or that made it
	Reason         string
	Unconfined     bool // the agent that asks could approve for itself
	// Definition is what the tool of an MCP server was when the question was asked, as JSON; nil for any other question.
	Definition []byte
	// Path is a JSON array of agent ids, from the thread's own agent to the one that asks, where that was called by
	// another; nil elsewhere.
	Path []byte
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
	// Approvals lists newest first, without those of Sessions that agents began, unless f names one. A Scope of Deciding lists, beside its own, what others asked
	// as long as it is open.
	Approvals(ctx context.Context, in Scope, f ApprovalFilter, page Page) ([]Approval, error)
	// OpenApprovals lists the PENDING ones that the Scope may decide, oldest first.
	OpenApprovals(ctx context.Context, in Scope, page Page) ([]ApprovalChange, error)
	// ApprovalChanges lists what happened to Approvals after a position, in the order of
	// positions. What is not sequenced yet is not listed; see SequenceApprovals.
	ApprovalChanges(ctx context.Context, in Scope, after int64, limit int) ([]ApprovalChange, error)
	// LastApprovalChange is the newest position, of any tenant, for a Scope that sees everything;
	// 0 for any other.
	LastApprovalChange(ctx context.Context, in Scope) (int64, error)
	// ApprovalsUnsequenced reports whether SequenceApprovals has something to do, to a Scope that
	// sees everything.
	ApprovalsUnsequenced(ctx context.Context, in Scope) (bool, error)
}

// ApprovalChange is one step of an Approval's life: it was opened (or delegated, which opens it
// for another user), or it was settled.
type ApprovalChange struct {
	// Seq is its position among all changes, 0 when it has none yet. Positions go upwards in the
	// order in which readers can see the changes, so that a reader that has read up to one misses
	// nothing before it. They are not without gaps: other tenants' changes have positions too.
	Seq      int64
	Settled  bool
	Approval Approval // as it stands now, also for an opening that was settled since
	Thread   string   // what the client calls the Session
	Tenant   string
	User     string // whose Session it is
	AgentID  string
}

// ApprovalTx changes Approvals.
type ApprovalTx interface {
	// InsertApproval fails with ErrConflict when the id is taken.
	InsertApproval(ctx context.Context, a Approval) error
	MoveApproval(ctx context.Context, m ApprovalMove) (bool, error)
	// DelegateApproval is false when the Approval is not PENDING any more.
	DelegateApproval(ctx context.Context, d ApprovalDelegation) (bool, error)
	// ProposeEdit keeps changed arguments for a second person, who is shown the Approval anew. It is false when the Approval is
	// not PENDING any more.
	ProposeEdit(ctx context.Context, p ApprovalProposal) (bool, error)
	// SequenceApprovals gives positions to changes that are committed and have none, limit of
	// each kind at most, and returns how many. A change is written without a position, because
	// transactions commit in another order than they write: a reader that has passed a position
	// would never see a lower one that is committed later. Those who sequence wait for each
	// other, and see only what is committed.
	SequenceApprovals(ctx context.Context, limit int) (int64, error)
}

// ApprovalProposal are changed arguments that a second person has to approve.
type ApprovalProposal struct {
	ID     string
	Args   []byte // JSON as shown
	SHA256 string // hex, of what would run
	By     string
}

// ApprovalDelegation hands an Approval to another user; an empty To takes it back.
type ApprovalDelegation struct {
	ID    string
	To    string
	By    string
	Until time.Time // zero: as long as it is open
}
