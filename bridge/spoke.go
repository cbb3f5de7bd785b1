package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// Spoke says that a Session's upstream has something to say although no Turn reads it. A
// Turn under way is looked after; with none one begins that nobody prompted. Saying it twice does no harm.
func (s *Sessions) Spoke(ctx context.Context, sessionID string) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		session, err := tx.LockSession(ctx, store.System(), sessionID)
		if err != nil {
			return err
		}
		_, err = tx.ActiveTurn(ctx, store.System(), sessionID)
		if errors.Is(err, store.ErrNotFound) {
			return queueUnprompted(ctx, tx, session)
		}
		return err
	})
	if err == nil {
		s.cfg.Bell.Ring(sessionID)
	}
	return err
}

// isUnprompted reports whether a Turn is the Agent's own: it spoke by itself. A prompt need not wait for its end.
func isUnprompted(t store.Turn) bool {
	var input turnInput
	return json.Unmarshal(t.Input, &input) == nil && input.Unprompted
}

// queueUnprompted writes a Turn that begins with no message. Its client is the one that
// was last there.
func queueUnprompted(ctx context.Context, tx store.Tx, session store.Session) error {
	profile := json.RawMessage(mustJSON(Profile{Dialect: DialectV1}))
	last, err := tx.LastRun(ctx, store.System(), session.ID)
	switch {
	case err == nil:
		profile = last.Profile
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
