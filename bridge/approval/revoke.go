package approval

import (
	"context"
	"time"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// codeRevoked is the code of a call whose approval was taken back.
const codeRevoked = "revoked"

// revoke moves the rows of an approved Question back to cancelled; a *fault.Error when the decision has been acted on.
// The Session is locked, and the moves compare: an owner that delivers the decision at the same time either finds the
// call DISPATCHED first, and then this is too late, or finds it FAILED and delivers the cancel.
func (s *Settler) revoke(ctx context.Context, tx store.Tx, who store.Principal, q Question, now time.Time) error {
	late := fault.New(AlreadyDelivered, "The agent has been told: its approval cannot be taken back.")
	won, err := false, error(nil)
	switch {
	case q.Approval.Status != store.ApprovalApproved:
		return fault.New(AlreadyDecided, "This question was not approved: there is nothing to take back.")
	case q.IsToolCall() && s.Calls != nil:
		late = fault.New(AlreadyDispatched, "The call has been dispatched: its approval cannot be taken back.")
		won, err = s.Calls.Revoke(ctx, tx, q.Call, now)
	case !q.IsToolCall():
		won, err = tx.MoveToolCall(ctx, store.ToolCallMove{
			ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: codeRevoked, EndedAt: now, Result: object("status", codeRevoked),
		})
	}
	if err != nil {
		return err
	}
	if !won {
		return late
	}
	return revokeApproval(ctx, tx, q, Decision{Status: store.ApprovalCancelled, By: who.User, Via: ViaRevoke}, now)
}

// revokeApproval moves the Approval of a Question whose call was taken back, and records the decision.
func revokeApproval(ctx context.Context, tx store.Tx, q Question, d Decision, now time.Time) error {
	m := approvalMove(q, d, now)
	m.From = store.ApprovalApproved
	if _, err := tx.MoveApproval(ctx, m); err != nil {
		return err
	}
	return tx.InsertRecord(ctx, DecisionRecord(q, d, now))
}
