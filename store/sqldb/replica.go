package sqldb

import (
	"context"
	"errors"
	"fmt"

	"aqueduct/store"
)

type (
	// Replicas fence each other: a fenced one writes nothing any more, so that its Sessions can be taken over.
	replicaReader struct{ *conn }

	// A fence is set before anything of the replica is claimed; InsertReplica comes with the process's start.
	replicaTx struct{ *conn }
)

// Beat implements store.Replicas. Others look at the number and not at the time: clocks differ, and a number that
// moves is alive.
func (r *replicaReader) Beat(ctx context.Context, id string) error {
	n, err := r.exec(ctx, "UPDATE replicas SET beat = beat + 1, seen_at = $2 WHERE id = $1 AND NOT fenced",
		id, millis(r.d.now()))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s", store.ErrFenced, id)
	}
	return err
}

// ListReplicas implements store.Replicas. Each start of a process leaves a row, so the order is by an expression: SQLite
// then begins with the partial index of those that live.
func (r *replicaReader) ListReplicas(ctx context.Context) ([]store.Replica, error) {
	return list(ctx, r.conn, scanReplica, "SELECT id, name, beat, fenced, seen_at FROM replicas WHERE NOT fenced ORDER BY id || ''")
}

func scanReplica(at row) (store.Replica, error) {
	var p store.Replica
	err := at.Scan(&p.ID, &p.Name, &p.Beat, &p.Fenced, timeInto{&p.SeenAt})
	return p, err
}

// notFenced is ErrFenced when the replica may not write. It is a fence only where no other process can set the mark
// before the commit, as on SQLite; on PostgreSQL a Batch locks the row (aqueduct_fence).
func (r *replicaReader) notFenced(ctx context.Context, id string) error {
	_, err := one(ctx, r.conn, scanString, "SELECT id FROM replicas WHERE id = $1 AND NOT fenced", id)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %s", store.ErrFenced, id)
	}
	return err
}

// FenceNamesakes fences every other living replica of the name.
func (t *replicaTx) FenceNamesakes(ctx context.Context, name, except string) error {
	return t.run(ctx, "UPDATE replicas SET fenced = TRUE WHERE name = $1 AND id <> $2 AND NOT fenced", name, except)
}

// FenceReplica fences one.
func (t *replicaTx) FenceReplica(ctx context.Context, id string) error {
	return t.run(ctx, "UPDATE replicas SET fenced = TRUE WHERE id = $1 AND NOT fenced", id)
}

// FenceAll fences every living replica. It is for SQLite, where who opens the file is the only one that may write.
func (t *replicaTx) FenceAll(ctx context.Context) error {
	return t.run(ctx, "UPDATE replicas SET fenced = TRUE WHERE NOT fenced")
}

// InsertReplica adds one; ErrConflict when another of the name lives or the id is taken.
func (t *replicaTx) InsertReplica(ctx context.Context, p store.Replica) error {
	return t.run(ctx, "INSERT INTO replicas (id, name, beat, fenced, seen_at) VALUES ($1, $2, $3, FALSE, $4)",
		p.ID, p.Name, p.Beat, millis(t.d.now()))
}

// PingStatement writes one row that means nothing.
const PingStatement = "UPDATE pings SET tries = tries + 1 WHERE id = 1"

// Ping writes, to see whether that succeeds.
func (t *replicaTx) Ping(ctx context.Context) error { return t.run(ctx, PingStatement) }
