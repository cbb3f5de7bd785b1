package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"aqueduct/store"
)

// Spoke says that a Session's upstream has something to say although no Turn reads it. A
// parked Turn whose upstream is not held is taken up again; with no Turn under way one
// begins that nobody prompted; any other Turn reads it anyhow. Saying it twice does no harm.
func (s *Sessions) Spoke(ctx context.Context, sessionID string) error {
	var parked, queued bool
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		parked, queued = false, false
		session, err := tx.LockSession(ctx, store.System(), sessionID)
		if err != nil {
			return err
		}
		turn, err := tx.ActiveTurn(ctx, store.System(), sessionID)
		if errors.Is(err, store.ErrNotFound) {
			queued = true
			return queueUnprompted(ctx, tx, session)
		}
		parked = err == nil && turn.Status.Paused()
		return err
	})
	switch {
	case err != nil:
		return err
	case parked:
		s.adoptSoon(sessionID)
	case queued:
		s.cfg.Bell.Ring(sessionID)
	}
	return nil
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
		ID: id, SessionID: session.ID, AgentID: session.AgentID, Status: store.TurnQueued, CreatedAt: now,
		Input: mustJSON(turnInput{Unprompted: true}),
	})
	if err != nil {
		return err
	}
	return tx.InsertRun(ctx, store.Run{
		ID: id, SessionID: session.ID, TurnID: id, ExternalID: id, Status: store.RunReserved, Profile: profile, CreatedAt: now,
	})
}

// adoptSoon has the Session's goroutine look at its parked Turn. A gateway may hear of an
// upstream before Run has begun: the wish waits.
func (s *Sessions) adoptSoon(sessionID string) {
	s.mu.Lock()
	s.spoken[sessionID] = true
	s.mu.Unlock()
	s.wake(sessionID)
}

func (s *Sessions) wakeSpoken() {
	s.mu.Lock()
	waiting := slices.Collect(maps.Keys(s.spoken))
	s.mu.Unlock()
	for _, id := range waiting {
		s.wake(id)
	}
}

// hasSpoken reports, once, that a parked Turn of the Session is to be adopted.
func (s *Sessions) hasSpoken(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	spoke := s.spoken[sessionID]
	delete(s.spoken, sessionID)
	return spoke
}

// adopt takes up the upstream of a parked Turn. If that is not possible, the Turn stays
// parked, and its Agent is called when the answers are there.
func (s *session) adopt(ctx context.Context, row store.Turn) error {
	err := s.tryAdopt(ctx, row)
	if err != nil {
		s.m.adoptSoon(s.id)
	}
	return err
}

func (s *session) tryAdopt(ctx context.Context, row store.Turn) error {
	if s.turn != nil && s.turn.row.ID == row.ID && s.turn.held() {
		return nil
	}
	s.release()
	runs, err := s.m.cfg.Store.RunsOfTurn(ctx, store.System(), row.ID)
	if err != nil {
		return err
	}
	last, profile := runs[len(runs)-1], Profile{}
	if last.Status == store.RunRunning { // an earlier process left it open: it is parked first
		s.m.adoptSoon(s.id)
		return s.restore(ctx)
	}
	if err := json.Unmarshal(last.Profile, &profile); err != nil && len(last.Profile) > 0 {
		return err
	}
	if err := s.takeUp(ctx, row); err != nil {
		return err
	}
	if ended(s.turn.back) { // it has had its last word
		return s.finish(ctx, nil)
	}
	call, err := s.turn.callIn(ctx, last.ID, profile)
	if err != nil {
		return err
	}
	s.turn.pump = s.turn.resume(ctx, call.Call, nil)
	return s.finish(ctx, nil)
}
