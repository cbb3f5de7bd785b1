// This file takes the right to write from replicas. The mark in their row is the fence; what makes it hold is that
// every Batch holds a lock on that row to the end of its commit, so the mark cannot be set beneath one.

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

const (
	// fencePatience is how long a Batch in flight is waited for. A healthy one takes
	// milliseconds; one that takes longer belongs to a frozen or cut-off process.
	fencePatience = "1s"
	// fenceWithin bounds it all.
	fenceWithin = 20 * time.Second
)

// Register implements store.Replicas.
func (s *Store) Register(ctx context.Context, r store.Replica) error {
	return s.fencing(ctx, namesakes, r.Name, func(tx *sqldb.Tx) error {
		if err := tx.FenceNamesakes(ctx, r.Name, r.ID); err != nil {
			return err
		}
		return tx.InsertReplica(ctx, r)
	})
}

// Fence implements store.Replicas.
func (s *Store) Fence(ctx context.Context, id string) error {
	return s.fencing(ctx, itself, id, func(tx *sqldb.Tx) error { return tx.FenceReplica(ctx, id) })
}

// Whose committers stand in the way.
const (
	namesakes = "name = $1"
	itself    = "id = $1"
)

// fencing runs change, which marks replicas as fenced. A Batch of theirs in flight
// holds their row, so change waits for it; one that does not end is ended with its
// backend, which undoes it. Whatever such a replica sends later finds the mark.
func (s *Store) fencing(ctx context.Context, whose, key string, change func(*sqldb.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, fenceWithin)
	defer cancel()
	for try := 1; ; try++ {
		err := s.inTx(ctx, func(raw *pipeline, tx *sqldb.Tx) error {
			if _, err := raw.ExecContext(ctx, "SET LOCAL lock_timeout = '"+fencePatience+"'"); err != nil {
				return classify(err)
			}
			return change(tx)
		})
		switch {
		case err == nil:
			return nil
		case isState(err, stateLockTimeout):
			if err := s.endCommitters(ctx, whose, key); err != nil {
				return err
			}
		case errors.Is(err, store.ErrConflict) && try < maxTries:
			// A namesake registered at the same moment, and replicas_living lets one of the two live; the next try
			// finds it and fences it.
		case ended(err):
			return fmt.Errorf("%w: fencing: %w", store.ErrUnavailable, err)
		default:
			return err
		}
	}
}

// endCommitters ends the backends that the replicas commit through. The name is set by
// the connection itself, so a process id used again cannot be hit by mistake. One that is
// idle holds nothing; behind a pooler it may be about to serve another client.
func (s *Store) endCommitters(ctx context.Context, whose, key string) error {
	_, err := s.db.ExecContext(ctx, `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.state <> 'idle'
		AND a.application_name IN (SELECT left('`+committerPrefix+`' || id, 63) FROM replicas
			WHERE NOT fenced AND `+whose+`)`, key)
	return classifyIdle(err)
}
