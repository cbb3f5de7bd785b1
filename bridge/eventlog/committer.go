package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"aqueduct/bridge/internal/failpoint"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

const (
	// commitInterval keeps a busy replica at about 200 commits a second: commits, not
	// rows, are what keeping costs. An idle one commits at once, and so does one on which
	// a request waits: what comes meanwhile is together in the commit after that.
	commitInterval = 5 * time.Millisecond
	// maxBatchBytes is about how much events and records one Batch has. Each Session may have maxPartBytes waiting, so a
	// store that was away meets hundreds of megabytes when it is back; PostgreSQL takes no parameter of one gigabyte, and
	// a Batch that it can never take would be repeated for ever.
	maxBatchBytes = 16 << 20
	// retryFirst and retryMost bound the pause between tries while the store is away.
	retryFirst = 10 * time.Millisecond
	retryMost  = time.Second
)

// committer writes parts. It is driven by one goroutine, Log.Run.
type committer struct {
	log  *Log
	last time.Time // when the last commit began
	seq  int64     // of the last Batch
}

// linger waits until the next commit is due. Nothing was taken yet, so what is appended meanwhile is in that commit. The
// interval counts from when the last commit began: a database that takes longer than it is never waited for besides.
func (c *committer) linger(ctx context.Context) error {
	wait := commitInterval - time.Since(c.last)
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.log.urgent:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// commitAll writes what was taken, in as many Batches as its size needs. The order is kept, and each Session has one part
// at most, so no Batch has a Session's events before an earlier one.
func (c *committer) commitAll(ctx context.Context, parts []*part) {
	for len(parts) > 0 {
		n, bytes := 0, 0
		for n < len(parts) && bytes < maxBatchBytes {
			bytes += len(parts[n].row.Data) + parts[n].recordBytes()
			n++
		}
		c.commit(ctx, parts[:n])
		parts = parts[n:]
	}
}

// commit writes the parts in one Batch. If the store refuses their content it halves
// them until the offender stands alone, and only that one's Session gets the error.
func (c *committer) commit(ctx context.Context, parts []*part) {
	if len(parts) == 0 {
		return
	}
	b := batchOf(c.log.cfg.Replica, c.seq+1, parts)
	if len(b.Events)+len(b.Records)+len(b.Moves) == 0 { // all before it is kept: so is nothing
		for _, p := range parts {
			p.settle(nil, nil)
		}
		return
	}
	c.seq++
	c.last = time.Now()
	c.log.began(c.last)
	result, err := c.write(ctx, b)
	c.log.began(time.Time{})
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
		c.log.cfg.Logger.Error("events refused", slog.String("session_id", parts[0].sessionID()), slog.Any("error", err))
		c.fail(parts, err)
	}
}

// refused reports that the store would refuse the Batch again, and one without the offending part might not be.
func refused(err error) bool {
	return errors.Is(err, store.ErrData) || errors.Is(err, store.ErrConflict)
}

// write repeats a Batch until its fate is known: while the store is away nothing else can be committed either, so the
// committer has no better use of its time, and what waits behind it is bounded (maxPartBytes, maxNoteBytes). When ctx
// ends first, which only the end of the process does, the error stands for "not kept, as far as is known".
func (c *committer) write(ctx context.Context, b *store.Batch) (store.Result, error) {
	doubt, wait := false, retryFirst
	for {
		failpoint.Here("before_commit")
		result, err := c.log.cfg.Store.Commit(ctx, b)
		if doubt && errors.Is(err, store.ErrConflict) {
			var landed bool
			if landed, err = c.hasLanded(ctx, b, err); landed {
				return store.Result{Lost: all(b.Moves)}, nil
			}
		}
		switch {
		case errors.Is(err, store.ErrUnknownOutcome):
			doubt = true
		case errors.Is(err, store.ErrUnavailable):
		default:
			return result, err
		}
		c.log.cfg.Logger.Warn("commit not made, trying again", slog.Any("error", err))
		if retry.Sleep(ctx, wait) != nil {
			return store.Result{}, err
		}
		wait = min(2*wait, retryMost)
	}
}

// hasLanded tells what a conflict after an unknown outcome means: that the first try
// landed, or that the Batch meets a row of another writer's, as it would have at first.
// A Batch that holds events is known by them, another by its number.
func (c *committer) hasLanded(ctx context.Context, b *store.Batch, conflict error) (bool, error) {
	if len(b.Events) == 0 {
		_, err := c.log.cfg.Store.Commit(ctx, &store.Batch{Replica: b.Replica, Seq: b.Seq})
		if errors.Is(err, store.ErrConflict) {
			return true, nil
		}
		return false, cmp.Or(err, conflict)
	}
	row := b.Events[0]
	kept, err := c.log.cfg.Store.Events(ctx, store.System(), row.SessionID, row.FirstSeq()-1, 1)
	if err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if len(kept) > 0 && kept[0].LastSeq == row.LastSeq && bytes.Equal(kept[0].Data, row.Data) {
		return true, nil
	}
	return false, conflict
}

// all is the indices of moves that may have been lost: what the first try would have
// notified of them is not known.
func all(moves []store.Move) []int {
	lost := make([]int, len(moves))
	for i := range lost {
		lost[i] = i
	}
	return lost
}

// landed publishes what was kept: first to the ring, then to the writers that wait, then by the bells. A tail that is
// woken finds the rows in the ring, and so does a caller that a writer has notified.
func (c *committer) landed(parts []*part, result store.Result, took time.Duration) {
	failpoint.Here("after_commit")
	stats := CommitStats{Took: took}
	sessions := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.row.N > 0 {
			c.log.ring.publish(p.row)
			stats.Events += p.row.N
			stats.Bytes += len(p.row.Data)
		}
		if p.writer != nil {
			sessions = append(sessions, p.row.SessionID)
		}
	}
	stats.Sessions = len(sessions)
	// Moves lie in the Batch part by part, so base is where the next part's begin.
	base := 0
	for _, p := range parts {
		p.settle(lostOf(result, base, len(p.moves)), nil)
		base += len(p.moves)
	}
	c.log.cfg.Bell.committed(sessions)
	if c.log.cfg.Observe != nil {
		c.log.cfg.Observe(stats)
	}
}

// fail settles parts that were not kept.
func (c *committer) fail(parts []*part, err error) {
	for _, p := range parts {
		p.settle(nil, err)
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

// batchOf puts the parts into one Batch, in their order: Sessions do not depend on each other, and what one Session
// appended is one part.
func batchOf(replica string, seq int64, parts []*part) *store.Batch {
	b := &store.Batch{Replica: replica, Seq: seq, Events: make([]store.EventRow, 0, len(parts))}
	for _, p := range parts {
		if p.row.N > 0 {
			b.Events = append(b.Events, p.row)
		}
		b.Records = append(b.Records, p.records...)
		b.Moves = append(b.Moves, p.moves...)
	}
	return b
}
