package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/store"
)

const (
	// commitInterval keeps a busy replica at about 200 commits a second: commits, not
	// rows, are what keeping costs. An idle one commits at once.
	commitInterval = 5 * time.Millisecond
	// retryFirst and retryMost bound the pause between tries while the store is away.
	retryFirst = 10 * time.Millisecond
	retryMost  = time.Second
)

// committer writes parts. It is driven by one goroutine, Log.Run.
type committer struct {
	log  *Log
	last time.Time // when the last commit began
}

// linger waits until the next commit is due.
func (c *committer) linger(ctx context.Context) error {
	wait := commitInterval - time.Since(c.last)
	if wait <= 0 {
		return nil
	}
	return pause(ctx, wait)
}

// commit writes the parts in one Batch. If the store refuses their content it halves
// them until the offender stands alone, and only that one's Session is told.
func (c *committer) commit(ctx context.Context, parts []*part) {
	if len(parts) == 0 {
		return
	}
	c.last = time.Now()
	result, err := c.write(ctx, batchOf(c.log.cfg.Replica, parts))
	switch {
	case err == nil:
		c.landed(parts, result, time.Since(c.last))
	case errors.Is(err, store.ErrFenced):
		c.fail(parts, err)
		c.log.stop(err)
	case refused(err) && len(parts) > 1:
		half := len(parts) / 2
		c.commit(ctx, parts[:half])
		c.commit(ctx, parts[half:])
	default:
		c.log.cfg.Logger.Error("events refused", slog.String("session_id", parts[0].row.SessionID), slog.Any("error", err))
		c.fail(parts, err)
	}
}

func refused(err error) bool {
	return errors.Is(err, store.ErrData) || errors.Is(err, store.ErrConflict)
}

// write repeats a Batch until its fate is known. After an unknown outcome a conflict
// means that the first try landed.
func (c *committer) write(ctx context.Context, b *store.Batch) (store.Result, error) {
	doubt, wait := false, retryFirst
	for {
		result, err := c.log.cfg.Store.Commit(ctx, b)
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			doubt = true
		case errors.Is(err, store.ErrConflict) && doubt:
			return store.Result{}, nil
		case errors.Is(err, store.ErrUnavailable):
		default:
			return result, err
		}
		c.log.cfg.Logger.Warn("commit not made, trying again", slog.Any("error", err))
		if pause(ctx, wait) != nil {
			return store.Result{}, err
		}
		wait = min(2*wait, retryMost)
	}
}

// landed publishes what was kept: first to the rings, then the bells.
func (c *committer) landed(parts []*part, result store.Result, took time.Duration) {
	stats := CommitStats{Took: took}
	sessions := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.row.N > 0 {
			c.log.ring.publish(p.row)
			stats.Events += p.row.N
			stats.Bytes += len(p.row.Data)
		}
		sessions = append(sessions, p.row.SessionID)
	}
	stats.Sessions = len(parts)
	base := 0
	for _, p := range parts {
		p.writer.settle(p, lostOf(result, base, len(p.moves)), nil)
		base += len(p.moves)
	}
	c.log.cfg.Bell.committed(sessions)
	if c.log.cfg.Observe != nil {
		c.log.cfg.Observe(stats)
	}
}

func (c *committer) fail(parts []*part, err error) {
	for _, p := range parts {
		p.writer.settle(p, nil, err)
	}
}

// lostOf picks the lost moves of one part out of the Batch's.
func lostOf(r store.Result, base, n int) map[int]bool {
	var lost map[int]bool
	for _, i := range r.Lost {
		if i >= base && i < base+n {
			if lost == nil {
				lost = make(map[int]bool)
			}
			lost[i-base] = true
		}
	}
	return lost
}

func batchOf(replica string, parts []*part) *store.Batch {
	b := &store.Batch{Replica: replica, Events: make([]store.EventRow, 0, len(parts))}
	for _, p := range parts {
		if p.row.N > 0 {
			b.Events = append(b.Events, p.row)
		}
		b.Records = append(b.Records, p.records...)
		b.Moves = append(b.Moves, p.moves...)
	}
	return b
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
