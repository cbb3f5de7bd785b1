package tools

import (
	"context"
	"errors"
	"sync"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// clientCalls dispatches calls that the user's client executes, and arms their deadlines.
type clientCalls struct {
	store     store.Store
	replica   string
	listeners func(sessionID string) int
	callback  func(ctx context.Context, r store.Reader, turnID string) (bool, error)
	approved  *approvedCheck
	deadlines *deadlines
	offline   func(cause string) // counts calls that no client was there for; may be nil

	mu sync.Mutex
	// unarmed are approved calls that were dispatched to clients, and whose client calls have no deadline yet.
	unarmed []store.ToolCall
}

// online reports whether a call can be executed now: a server tool always, a client's while a client listens, or where the
// client of the Turn is reached by a callback.
func (c *clientCalls) online(ctx context.Context, r store.Reader, call store.ToolCall) (bool, error) {
	if call.Kind == store.KindServer || c.listeners(call.SessionID) > 0 {
		return true, nil
	}
	return c.callback(ctx, r, call.TurnID)
}

// dispatched puts a call that is allowed into its next state: RUNNING here for a server tool, waiting for the client if one
// is online, else failed.
// The deadline of a client's call begins here and not when the agent asked: the time a person took to approve it is
// not the page's.
func (c *clientCalls) dispatched(call *store.ToolCall, now time.Time, online bool) {
	switch {
	case call.Kind == store.KindServer:
		call.Status, call.Replica, call.RunningAt = store.ToolRunning, c.replica, now
	case !online:
		fail(call, store.ToolFailed, fault.New(CodeClientOffline, "Nobody is there who could run this tool."), now)
	default:
		call.Status, call.ExpiresAt = store.ToolWaitingClient, now.Add(call.Timeout)
	}
}

// dispatch gives an approved call to the user's client, as a call of its own: in the chat the permission stands under the
// first id. The approved call stays DISPATCHED until the client's has ended.
func (c *clientCalls) dispatch(ctx context.Context, tx store.Tx, approved store.ToolCall, now time.Time) error {
	if no, err := c.approved.clientRefusal(ctx, tx, approved); err != nil {
		return err
	} else if no != nil {
		_, err := endInTx(ctx, tx, approved, failedMove(approved, store.ToolDispatched, no, now))
		return err
	}
	call := approved
	call.ID, call.UpstreamID, call.IdempotencyKey = newID(), approval.ApprovedPrefix+approved.ID, ""
	call.RunID, call.InTranscript, call.Carded, call.DeliveredAt, call.CreatedAt, call.ExpiresAt = "", false, false, time.Time{}, now, time.Time{}
	online, err := c.online(ctx, tx, call)
	if err != nil {
		return err
	}
	c.dispatched(&call, now, online)
	if call.Status.Terminal() {
		ended := approved
		ended.Status, ended.ErrorCode, ended.Error, ended.EndedAt = call.Status, call.ErrorCode, call.Error, now
		if err := tx.InsertRecord(ctx, trace.ResultOf(ended).Record(ended, now)); err != nil {
			return err
		}
		return endApproved(ctx, tx, approved.ID, call, now)
	}
	if err := tx.InsertRecord(ctx, trace.Dispatched(approved, call.ID, "", now, call.ExpiresAt)); err != nil {
		return err
	}
	return tx.InsertToolCall(ctx, call) // armDispatched arms its deadline, after the commit
}

// decided takes note of an approved call that was dispatched to a client.
func (c *clientCalls) decided(q approval.Question) {
	if q.Call.Kind == store.KindClient && q.Call.Status == store.ToolDispatched {
		c.mu.Lock()
		c.unarmed = append(c.unarmed, q.Call)
		c.mu.Unlock()
	}
}

// armDispatched arms the deadlines of the client calls of approved calls. The transaction that inserts such a call cannot:
// its closure may run twice, and the call of the first time is then in no row.
func (c *clientCalls) armDispatched(ctx context.Context) error {
	c.mu.Lock()
	unarmed := c.unarmed
	c.unarmed = nil
	c.mu.Unlock()
	for i, of := range unarmed {
		calls, err := c.store.ToolCallsOfTurn(ctx, store.System(), of.TurnID)
		if err != nil {
			c.mu.Lock()
			c.unarmed = append(c.unarmed, unarmed[i:]...) // for the next look
			c.mu.Unlock()
			return err
		}
		for _, call := range calls {
			if call.Kind == store.KindClient && call.UpstreamID == approval.ApprovedPrefix+of.ID {
				c.deadlines.arm(call)
			}
			if call.ID == of.ID {
				c.countOffline(call, OfflineApproved)
			}
		}
	}
	return nil
}

// countOffline counts a call that failed because no client was there, by when that was found.
func (c *clientCalls) countOffline(call store.ToolCall, cause string) {
	if c.offline != nil && call.ErrorCode == CodeClientOffline {
		c.offline(cause)
	}
}

// endApproved gives the approved call the end of the client's call for it.
func endApproved(ctx context.Context, tx store.Tx, id string, of store.ToolCall, now time.Time) error {
	if same, err := ofTurn(ctx, tx, id, of.TurnID); err != nil || !same {
		return err
	}
	_, err := tx.MoveToolCall(ctx, store.ToolCallMove{
		ID: id, From: store.ToolDispatched, To: of.Status, Result: of.Result, ErrorCode: of.ErrorCode, Error: of.Error, EndedAt: now,
	})
	return err
}

// ofTurn reports whether a ToolCall belongs to a Turn. An id that was read out of another row is not trusted further.
func ofTurn(ctx context.Context, r store.Reader, id, turnID string) (bool, error) {
	call, err := r.ToolCall(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return call.TurnID == turnID, err
}
