package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// Unmasked restores the masked values that the approver saw, in changed arguments that keep them in place. It refuses a mask
// anywhere else, because such a mask represents no value.
func Unmasked(ctx context.Context, r store.Reader, q Question, edited json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(edited, []byte(redact.Mask)) {
		return edited, nil
	}
	original, err := r.ToolCall(store.WithOriginals(ctx), store.System(), q.Call.ID)
	if err != nil {
		return nil, err
	}
	whole, ok := redact.Restore(q.Call.Args, original.Args, edited)
	if !ok {
		return nil, fault.New(InvalidAnswer, "A masked value must stay in its place or be replaced.")
	}
	return whole, nil
}

// A person who changes the arguments of a call asks for the new ones. Where four eyes are wanted, of the call as it was asked or
// as it would run, somebody else has to approve these: neither who prompted nor who changed them. The change is kept as a
// proposal, and the second person approves it by the same arguments, so that nobody approves arguments that were not shown.

// needsSecond reports whether a Decision is a change that another person has not proposed.
func needsSecond(q Question, d Decision, terms policy.Terms, who store.Principal) bool {
	if d.Edited == nil || d.Status != store.ApprovalApproved || who.User == "" || !q.Approval.FourEyes && !terms.FourEyes {
		return false
	}
	a := q.Approval
	return a.ProposedBy == "" || a.ProposedBy == who.User || a.ProposedSHA256 != d.SHA256
}

// propose keeps a change for a second person, who gets the notices of a new Question.
func (s *Settler) propose(ctx context.Context, tx store.Tx, session store.Session, q Question, d Decision, who store.Principal, now time.Time) (Settled, error) {
	settled := Settled{Question: q, Session: session, Proposed: true}
	if q.Approval.ProposedBy == who.User && q.Approval.ProposedSHA256 == d.SHA256 {
		return settled, nil
	}
	if _, err := tx.ProposeEdit(ctx, store.ApprovalProposal{ID: q.Call.ID, Args: d.Edited, SHA256: d.SHA256, By: who.User}); err != nil {
		return settled, err
	}
	var err error
	if settled.Question, err = Load(ctx, tx, store.System(), q.Call.ID); err != nil {
		return settled, err
	}
	if err := s.Notices.Insert(ctx, tx, settled.Question, session); err != nil {
		return settled, err
	}
	return settled, audit.AppendAt(ctx, tx, who, audit.ApprovalProposed, audit.OfApproval(q.Call.ID), map[string]string{
		"tool": q.Approval.Tool, "args_sha256": q.Approval.ArgsSHA256, "edited_sha256": d.SHA256,
	}, now)
}

// ErrProposed is what the person reads who changed the arguments.
func ErrProposed() *fault.Error {
	return fault.New(FourEyes, "Your change is kept, and waits for another person: neither who prompted the agent nor you may approve it.")
}

// mayApprove is why a person may not approve changed arguments, by what the policy wants of these.
func mayApprove(ctx context.Context, r store.DelegationReader, terms policy.Terms, q Question, who store.Principal) error {
	asked := q.Approval
	SetTerms(&asked, terms, q.Approval.AskedUser)
	return MayDecideFor(ctx, r, Question{Call: q.Call, Approval: asked}, Decision{Status: store.ApprovalApproved}, who)
}
