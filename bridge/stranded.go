package bridge

import (
	"context"
	"log/slog"
	"time"

	"aqueduct/store"
)

const (
	// strandedEvery is how often Turns are looked for that nothing moves any more. One is found at the second look: a
	// commit may be on its way at the first.
	strandedEvery = 10 * pollEvery
	// strandedMost is how many are ended at a time.
	strandedMost = 100
)

// lookForStranded ends Turns that nothing moves any more: without a Run, an open Question, anything to pass on, or a
// goroutine that drives them. There is no way to one that we know of. If there is, its thread must not stay unusable, and
// whoever runs the server must learn of it: each is an error in the log and in the metrics.
func (s *Sessions) lookForStranded(ctx context.Context) error {
	turns, err := s.cfg.Store.StrandedTurns(ctx, store.System(), s.cfg.Replica, strandedMost)
	if err != nil {
		return err
	}
	suspects := make(map[string]bool, len(turns))
	for _, turn := range turns {
		if s.drives(turn.SessionID) {
			continue
		}
		if !s.suspects[turn.ID] {
			suspects[turn.ID] = true
			continue
		}
		s.cfg.Logger.Error("a turn was left without a future; it is ended", slog.String("session_id", turn.SessionID),
			slog.String("turn_id", turn.ID), slog.String("status", string(turn.Status)))
		if f := s.cfg.Meter.Stranded; f != nil {
			f()
		}
		if err := s.endStranded(ctx, turn); err != nil {
			return err
		}
	}
	s.suspects = suspects
	return nil
}

func (s *Sessions) endStranded(ctx context.Context, turn store.Turn) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: turn.SessionID, TurnID: turn.ID, Kind: store.CommandFail, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{Code: CodeInternal, Message: "The turn was lost by a fault of the server, and was ended."}),
		})
	})
	if err == nil {
		s.cfg.Bell.Ring(turn.SessionID)
	}
	return err
}

// drives reports whether a goroutine of this replica drives the Session.
func (s *Sessions) drives(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[sessionID] != nil
}
