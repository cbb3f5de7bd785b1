package contextstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/internal/failpoint"
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
		case <-s.kick:
		case <-ctx.Done():
			return nil
		}
	}
}

// look has Run look for what is DOOMED. The kick has one place: a second finds Run on its way.
func (s *Service) look() {
	if s.cfg.Blobs == nil {
		return
	}
	select {
	case s.kick <- struct{}{}:
	default:
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
	return s.deleteDoomed(ctx, "")
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
					err = settleBlobs(ctx, tx, "", e.BlobID)
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
	return s.deleteDoomed(ctx, sessionID)
}

// errNoBlobs: rows are left of a blob store that is not configured any more.
var errNoBlobs = errors.New("contextstore: there are blobs to delete, and no blob store is set")

// deleteDoomed deletes the bytes of doomed blobs, of one Session or of all, and each one's row behind them.
func (s *Service) deleteDoomed(ctx context.Context, sessionID string) error {
	for {
		doomed, err := s.cfg.Store.DoomedBlobs(ctx, store.System(), sessionID, sweepAtOnce)
		if err != nil || len(doomed) == 0 {
			return err
		}
		if s.cfg.Blobs == nil {
			return errNoBlobs
		}
		failpoint.Here("blob_doomed")
		for _, b := range doomed {
			if err := s.cfg.Blobs.Delete(ctx, b.ID); err != nil {
				return away(err)
			}
		}
		failpoint.Here("blob_deleted")
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			for _, b := range doomed {
				if err := tx.RemoveBlob(ctx, b.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(doomed) < sweepAtOnce {
			return err
		}
	}
}
