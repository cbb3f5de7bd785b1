package tools

import (
	"context"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// askClient dispatches an approved call to the user's client. It stays DISPATCHED until the
// client's own call has ended.
func (s *Service) askClient(ctx context.Context, tx store.Tx, approved store.ToolCall, now time.Time) error {
	if no, err := s.clientAsApproved(ctx, tx, approved); err != nil {
		return err
	} else if no != nil {
		_, err := moveEnded(ctx, tx, approved, store.ToolCallMove{
			ID: approved.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: no.Code, Error: no.json(), EndedAt: now,
		})
		return err
	}
	call := approved
	call.ID, call.UpstreamID, call.IdempotencyKey = newID(), inbox.ApprovedPrefix+approved.ID, ""
	call.RunID, call.Told, call.DeliveredAt, call.CreatedAt, call.ExpiresAt = "", false, time.Time{}, now, time.Time{}
	there, err := s.there(ctx, tx, call)
	if err != nil {
		return err
	}
	s.dispatched(&call, now, there)
	if call.Status.Terminal() {
		ended := approved
		ended.Status, ended.ErrorCode, ended.Error, ended.EndedAt = call.Status, call.ErrorCode, call.Error, now
		if err := tx.InsertRecord(ctx, trace.ResultOf(ended).Record(ended, now)); err != nil {
			return err
		}
		return s.clientEnded(ctx, tx, approved.ID, call, now)
	}
	if err := tx.InsertRecord(ctx, trace.Dispatched(approved, call.ID, "", now, call.ExpiresAt)); err != nil {
		return err
	}
	return tx.InsertToolCall(ctx, call) // its deadline is armed once it is kept: armDispatched
}

// armDispatched arms the deadlines of the calls that clients were given for approved ones. The transaction that inserts
// such a call cannot: it may run twice, and the first time's call is then in no row.
func (s *Service) armDispatched(ctx context.Context) error {
	s.mu.Lock()
	approved := s.approved
	s.approved = nil
	s.mu.Unlock()
	for i, of := range approved {
		calls, err := s.cfg.Store.ToolCallsOfTurn(ctx, store.System(), of.TurnID)
		if err != nil {
			s.mu.Lock()
			s.approved = append(s.approved, approved[i:]...) // for the next look
			s.mu.Unlock()
			return err
		}
		for _, call := range calls {
			if call.Kind == store.KindClient && call.UpstreamID == inbox.ApprovedPrefix+of.ID {
				s.deadline(call)
			}
			if call.ID == of.ID {
				s.countOffline(call, OfflineApproved)
			}
		}
	}
	return nil
}

// Revoke takes back an approved call that nobody runs yet; false when somebody does, or did.
func (s *Service) Revoke(ctx context.Context, tx store.Tx, call store.ToolCall, now time.Time) (bool, error) {
	if call.Kind != store.KindServer {
		return false, nil
	}
	e := &Error{CodeRejected, "The approval was taken back."}
	return moveEnded(ctx, tx, call, store.ToolCallMove{
		ID: call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: e.Code, Error: e.json(), EndedAt: now,
	})
}

// moveEnded ends a call, and puts that on record if nobody was first.
func moveEnded(ctx context.Context, tx store.Tx, call store.ToolCall, m store.ToolCallMove) (won bool, err error) {
	if won, err = tx.MoveToolCall(ctx, m); err != nil || !won {
		return won, err
	}
	return true, tx.InsertRecord(ctx, trace.ResultOf(call.Ended(m)).Record(call, m.EndedAt))
}

// clientEnded gives the approved call the end of the client's.
func (s *Service) clientEnded(ctx context.Context, tx store.Tx, id string, of store.ToolCall, now time.Time) error {
	if same, err := ofTurn(ctx, tx, id, of.TurnID); err != nil || !same {
		return err
	}
	_, err := tx.MoveToolCall(ctx, store.ToolCallMove{
		ID: id, From: store.ToolDispatched, To: of.Status, Result: of.Result, ErrorCode: of.ErrorCode, Error: of.Error, EndedAt: now,
	})
	return err
}
