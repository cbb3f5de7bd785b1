// This file deletes: entries whose time is over, blobs that nothing refers to, and what a deleted Session had.
// Nothing here is needed for a read to be right: an expired entry is not found from its time on (entry).

package contextstore

import (
	"context"
	"log/slog"
	"time"

	"aqueduct/store"
)

// Run deletes what has expired and what is left of interrupted writes, until ctx ends. It runs on every replica: two that
// meet do the same twice, which changes nothing.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("the context store could not be swept, trying again", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-s.contents.kick:
		case <-ctx.Done():
			return nil
		}
	}
}

// Sweep deletes entries whose time is over, and the bytes of all blobs that nothing refers to.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.expire(ctx); err != nil {
		return err
	}
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.DoomPending(ctx, now().Add(-pendingFor)) })
	if err != nil {
		return err
	}
	return s.contents.deleteDoomed(ctx, "")
}

// expire deletes entries whose time is over, a bounded part at a time. One that got a new version meanwhile stays.
func (s *Service) expire(ctx context.Context) error {
	for {
		due, err := s.cfg.Store.ExpiredContext(ctx, store.System(), now(), sweepAtOnce)
		if err != nil || len(due) == 0 {
			return err
		}
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			for _, e := range due {
				gone, err := tx.DeleteContextEntry(ctx, e.Key, e.Version)
				if err == nil && gone {
					err = doom(ctx, tx, e.BlobID)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(due) < sweepAtOnce {
			return err
		}
	}
}

// PurgeSession deletes the bytes of a Session that is deleted. Its rows are deleted behind them; no reader sees a hidden Session.
func (s *Service) PurgeSession(ctx context.Context, sessionID string) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.DoomBlobsOf(ctx, sessionID) })
	if err != nil {
		return err
	}
	return s.contents.deleteDoomed(ctx, sessionID)
}
