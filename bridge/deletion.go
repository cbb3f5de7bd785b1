package bridge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"aqueduct/store"
)

const (
	// purgeEvery is how often each replica looks for deleted Sessions: so soon all of them have dropped what they hold of
	// one in memory.
	purgeEvery = 5 * time.Second
	// purgeGrace is how long the row of a deleted Session stays, empty, after which its rows are looked for once more: what
	// an owner, an agent's proxy or a webhook was about to write when it was deleted has been written by then.
	purgeGrace = time.Minute
	// purgeAtOnce bounds the Sessions of one look.
	purgeAtOnce = 100
)

// errActive: a Turn has begun since the Session was looked at.
var errActive = errors.New("bridge: the session has a turn under way")

// Delete removes a thread and all that is kept of it. A Turn under way is cancelled first, and the session of an agent
// that keeps one is closed. The thread is gone for everybody when its row is hidden; its other rows are deleted after
// that, a part at a time. When ctx ends before all are, the replicas delete the rest.
func (s *Sessions) Delete(ctx context.Context, who store.Principal, threadID string) error {
	session, err := s.cfg.Store.SessionByExternalID(ctx, store.As(who), threadID)
	if err != nil {
		return err
	}
	for {
		if err = s.hide(ctx, who, session); !errors.Is(err, errActive) {
			break
		}
	}
	if err != nil {
		return err
	}
	s.cfg.Bell.Ring(session.ID) // tails of it end
	s.forget(session.ID)
	if err := s.purge(ctx, session.ID); err != nil {
		return err
	}
	return s.cfg.Store.Scrub(ctx)
}

// hide ends what the Session has under way and hides it, unless a Turn has begun in between: its owner would go on writing.
func (s *Sessions) hide(ctx context.Context, who store.Principal, session store.Session) error {
	if err := s.quiesce(ctx, session.ID, who.User); err != nil {
		return err
	}
	agents, err := s.agentsOf(ctx, session)
	if err != nil {
		return err
	}
	for _, id := range agents {
		if f, ok := s.cfg.Agents.agent(id).(Forgetter); ok {
			if err := f.Forget(ctx, InstanceID(session, id)); err != nil {
				return err
			}
		}
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		if _, err := tx.ActiveTurn(ctx, store.System(), session.ID); err == nil {
			return errActive
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return tx.DeleteSession(ctx, session.ID, time.Now())
	})
}

// forget drops what this process holds of a Session.
func (s *Sessions) forget(sessionID string) {
	s.cfg.Log.Forget(sessionID)
	s.pasts.drop(sessionID)
}

// purge deletes the rows of a hidden Session. Other writers come in between its transactions.
func (s *Sessions) purge(ctx context.Context, sessionID string) error {
	for done := false; !done; {
		err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			done, err = tx.PurgeSession(ctx, sessionID)
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil // another replica has removed it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeDeleted finishes deletions until ctx ends: those of a request that was given up, of a replica that died, and of
// earlier versions, which only hid threads.
func (s *Sessions) purgeDeleted(ctx context.Context) {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		if err := s.purgeRound(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("deleted threads could not be removed, trying again", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Sessions) purgeRound(ctx context.Context) error {
	deleted, err := s.cfg.Store.DeletedSessions(ctx, store.System(), purgeAtOnce)
	if err != nil || len(deleted) == 0 {
		return err
	}
	removed := false
	for _, d := range deleted {
		s.forget(d.ID)
		if time.Since(d.At) < purgeGrace {
			continue // its request is at it, or a later round is
		}
		if err := s.purge(ctx, d.ID); err != nil {
			return err
		}
		if err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.RemoveSession(ctx, d.ID) }); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return s.cfg.Store.Scrub(ctx)
}

// quiesce cancels what a Session has under way and waits until nothing is. What is queued is cancelled first: its Agent
// would else be called with it as soon as the Turn before is over.
func (s *Sessions) quiesce(ctx context.Context, sessionID, by string) error {
	bell, stop := s.cfg.Bell.Listen(sessionID)
	defer stop()
	asked := make(map[string]bool)
	for {
		turn, err := s.cfg.Store.ActiveTurn(ctx, store.System(), sessionID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		due, err := s.cfg.Store.ReservedRuns(ctx, store.System(), sessionID)
		if err != nil {
			return err
		}
		turns := []string{turn.ID}
		for _, run := range due {
			turns = append(turns, run.TurnID)
		}
		for _, id := range slices.Backward(turns) {
			if asked[id] {
				continue
			}
			asked[id] = true
			if err := s.requestCancel(ctx, store.Turn{ID: id, SessionID: sessionID}, by); err != nil {
				return err
			}
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
