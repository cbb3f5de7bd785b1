// Approvals in JSON. One shape serves the inbox, the sockets, the links and the webhooks of channels, so that a
// client which learned one of them can read all.

package answer

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// Approval is a question as every HTTP surface shows it, in the words of the platform contract. approval_id and
// tool_call_id are the same id; both names exist because the contract has both. Decision is the answer as it was
// given, and args are masked where they held secrets.
type Approval struct {
	ApprovalID string `json:"approval_id"`
	ToolCallID string `json:"tool_call_id"`
	RunID      string `json:"run_id"` // the contract's run: our Turn
	ThreadID   string `json:"thread_id,omitempty"`
	Origin
	Kind     string          `json:"kind"`
	Status   string          `json:"status"`
	ToolName string          `json:"tool_name,omitempty"`
	ToolKind string          `json:"tool_kind,omitempty"` // ACP's
	Title    string          `json:"title,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	approval.Shown
	ArgsSHA256     string          `json:"args_sha256,omitempty"`
	Options        json.RawMessage `json:"options,omitempty"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	Risk           string          `json:"risk,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
	DecidedAt      *time.Time      `json:"decided_at,omitempty"`
	DecidedBy      string          `json:"decided_by,omitempty"`
	DecidedVia     string          `json:"decided_via,omitempty"`
	Decision       json.RawMessage `json:"decision,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	Approvers      json.RawMessage `json:"approvers,omitempty"`
	FourEyes       bool            `json:"four_eyes,omitempty"`
	Definition     json.RawMessage `json:"tool_definition,omitempty"` // of a tool of an MCP server
	MayEdit        bool            `json:"may_edit,omitempty"`
	EditedArgs     json.RawMessage `json:"edited_args,omitempty"`
	ProposedArgs   json.RawMessage `json:"proposed_args,omitempty"`
	ProposedBy     string          `json:"proposed_by,omitempty"`
	DelegatedTo    string          `json:"delegated_to,omitempty"`
	DelegatedBy    string          `json:"delegated_by,omitempty"`
	DelegatedUntil *time.Time      `json:"delegated_until,omitempty"`
}

// ApprovalOf is the JSON of a stored Approval in the thread of that name.
func ApprovalOf(a store.Approval, threadID string) Approval {
	return Approval{
		ApprovalID: a.ID, ToolCallID: a.ID, RunID: a.TurnID, ThreadID: threadID, Kind: string(a.Kind), Status: string(a.Status),
		ToolName: a.Tool, ToolKind: a.ToolKind, Title: a.Title, Args: a.Args, Shown: approval.ShownOf(a), ArgsSHA256: a.ArgsSHA256, Options: a.Options,
		ResponseSchema: a.ResponseSchema, Risk: a.Risk, CreatedAt: a.CreatedAt.UTC(), ExpiresAt: TimeOrNil(a.ExpiresAt),
		DecidedAt: TimeOrNil(a.DecidedAt), DecidedBy: a.DecidedBy, DecidedVia: a.DecidedVia, Decision: a.Decision, Reason: a.Reason,
		Approvers: a.Approvers, FourEyes: a.FourEyes, Definition: a.Definition, MayEdit: a.MayEdit, EditedArgs: a.EditedArgs, ProposedArgs: a.Proposed, ProposedBy: a.ProposedBy,
		DelegatedTo: a.DelegatedTo, DelegatedBy: a.DelegatedBy, DelegatedUntil: TimeOrNil(a.DelegatedUntil),
	}
}

// Origin is who asks, and where an ACP agent that asks works. Members that are not known stay empty: an HTTP agent
// has no proxy and no folder.
type Origin struct {
	Thread  string `json:"-"` // the name of the thread, for the approval itself
	Agent   string `json:"agent,omitempty"`
	ProxyID string `json:"proxy_id,omitempty"`
	Folder  string `json:"folder,omitempty"`
}

// Settled is what became of a decision. Won is true for the request whose decision counts, and Repeated for one that
// repeated it; both are false for a decision that came too late.
type Settled struct {
	Approval
	Won      bool `json:"won"`
	Repeated bool `json:"repeated"`
}

// TimeOrNil is a time that may not have come.
func TimeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// FindApproval reads an Approval for a decision. An id outside the caller's scope is written to the audit, so that
// guessing ids is visible there. in is the scope that counts: the inbox of the caller, or one thread.
func FindApproval(ctx context.Context, st store.Store, approvals *approval.Service, caller auth.Caller, in store.Scope, id string) (store.Approval, error) {
	a, err := st.Approval(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		approvals.AuditForeign(ctx, caller.Principal, problem.Truncate(id))
	}
	return a, err
}
