package bridge

import (
	"context"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// Revoke takes back an approval that nobody has acted on yet: of a tool call that has not begun, or of a Question whose
// Agent has not been told. The Agent is told that it was cancelled, and the record says so.
func (s *Sessions) Revoke(ctx context.Context, who store.Principal, id string) error {
	sessionID := ""
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		q, err := decider{who: who, in: inboxOf(who)}.load(ctx, tx, id)
		if err != nil {
			return err
		}
		if q.Approval.ID == "" || q.Open() {
			return store.ErrNotFound
		}
		sessionID = q.Call.SessionID
		if _, err := tx.LockSession(ctx, store.System(), sessionID); err != nil {
			return err
		}
		now := time.Now()
		if err := s.revoke(ctx, tx, who, q, now); err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.ApprovalRevoked, audit.OfApproval(id), nil, now)
	})
	if err == nil {
		s.cfg.Bell.Ring(sessionID)
	}
	return err
}

// revoke moves call and Approval; a *Refusal when somebody has acted on the decision.
func (s *Sessions) revoke(ctx context.Context, tx store.Tx, who store.Principal, q inbox.Question, now time.Time) error {
	late := &Refusal{Code: RefusedDelivered, Message: "The agent has been told: its approval cannot be taken back."}
	won, err := false, error(nil)
	switch {
	case q.Approval.Status != store.ApprovalApproved:
		return &Refusal{Code: RefusedDecided, Message: "This question was not approved: there is nothing to take back."}
	case q.Proxied() && s.cfg.Tools != nil:
		late = &Refusal{Code: RefusedDispatched, Message: "The call has been dispatched: its approval cannot be taken back."}
		won, err = s.cfg.Tools.Revoke(ctx, tx, q.Call, now)
	case !q.Proxied():
		won, err = tx.MoveToolCall(ctx, inbox.RevokedCall(q, now))
	}
	if err != nil {
		return err
	}
	if !won {
		return late
	}
	if _, err = tx.MoveApproval(ctx, inbox.RevokedApproval(q, who.User, now)); err != nil {
		return err
	}
	d := inbox.Decision{Status: store.ApprovalCancelled, By: who.User, Via: inbox.ViaRevoke}
	return tx.InsertRecord(ctx, inbox.DecisionRecord(q, d, now))
}
