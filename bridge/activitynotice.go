package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// NotifyActivity reports that an upstream, named by the InstanceID of its calls, has output that no Turn reads. A
// Turn of its Agent's that is under way is looked after; with none one begins that no message prompted, behind what other
// Agents are at. Saying it twice does no harm.
// The caller, a gateway, has output for an agent that speaks by itself: a background task has ended, say. It cannot be
// written outside of a Run, so a Turn is queued for it as for a prompt, and the Session's owner takes it up in its
// order.
func (s *Sessions) NotifyActivity(ctx context.Context, instance string) error {
	sessionID, agent := instance, ""
	// An instance with OfSession is that of an Agent beside the thread's own and names both. Any other instance, and
	// one without a row, has the Session's own id.
	switch row, err := s.cfg.Store.SandboxInstance(ctx, store.System(), instance); {
	case err == nil && row.OfSession != "":
		sessionID, agent = row.OfSession, row.AgentID
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		session, err := tx.LockSession(ctx, store.System(), sessionID)
		if err != nil {
			return err
		}
		session.AgentID = cmp.Or(agent, session.AgentID)
		if due, err := hasTurn(ctx, tx, session); err != nil || due {
			return err
		}
		return queueUnprompted(ctx, tx, session)
	})
	if err == nil {
		s.cfg.Bell.Ring(sessionID)
	}
	return err
}

// hasTurn reports whether a Turn of the Session's Agent is under way, or due after another one's.
// Without the second look each piece of output would queue a Turn of its own while another Agent is at work.
func hasTurn(ctx context.Context, tx store.Tx, session store.Session) (bool, error) {
	active, err := tx.ActiveTurn(ctx, store.System(), session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || active.AgentID == session.AgentID {
		return true, err
	}
	due, err := tx.ReservedRuns(ctx, store.System(), session.ID)
	for _, run := range due {
		turn, err := tx.Turn(ctx, store.System(), run.TurnID)
		if err != nil || turn.AgentID == session.AgentID {
			return true, err
		}
	}
	return false, err
}

// isUnprompted reports whether a Turn is the Agent's own: it spoke by itself. A prompt need not wait for its end.
func isUnprompted(t store.Turn) bool {
	var input turnInput
	return json.Unmarshal(t.Input, &input) == nil && input.Unprompted
}

// queueUnprompted writes a Turn that begins with no message. Its client is the one that
// was last there.
// It has the form of a prompt's Turn, QUEUED with a reserved Run, so that the owner's loop, a restart and a cancel
// need no case of its own. Run.Tails stays empty: no response waits for it.
// The profile of the last Run names which events its client reads; a thread without one gets AG-UI 1.0.
func queueUnprompted(ctx context.Context, tx store.Tx, session store.Session) error {
	profile := mustJSON(Profile{Dialect: DialectV1})
	last, err := tx.LastRun(ctx, store.System(), session.ID)
	switch {
	case err == nil:
		profile = withoutClient(last.Profile)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	id, now := newID(), time.Now()
	err = tx.InsertTurn(ctx, store.Turn{
		Traced: true, Traceparent: trace.New().Traceparent(), ID: id, SessionID: session.ID, AgentID: session.AgentID, Status: store.TurnQueued, CreatedAt: now,
		Input: mustJSON(turnInput{Unprompted: true}),
	})
	if err != nil {
		return err
	}
	return tx.InsertRun(ctx, store.Run{
		ID: id, SessionID: session.ID, TurnID: id, ExternalID: id, Status: store.RunReserved, Profile: profile, CreatedAt: now,
	})
}
