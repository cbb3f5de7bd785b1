package sqldb

import (
	"context"
	"fmt"

	"aqueduct/store"
)

// Beat implements store.Replicas.
func (r *Reader) Beat(ctx context.Context, id string) error {
	n, err := r.exec(ctx, "UPDATE replicas SET beat = beat + 1, seen_at = $2 WHERE id = $1 AND NOT fenced",
		id, millis(r.d.now()))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s", store.ErrFenced, id)
	}
	return err
}

// ListReplicas implements store.Replicas.
func (r *Reader) ListReplicas(ctx context.Context) ([]store.Replica, error) {
	return list(ctx, r, scanReplica, "SELECT id, name, beat, fenced, seen_at FROM replicas WHERE NOT fenced ORDER BY id")
}

func scanReplica(at row) (store.Replica, error) {
	var p store.Replica
	err := at.Scan(&p.ID, &p.Name, &p.Beat, &p.Fenced, timeInto{&p.SeenAt})
	return p, err
}

// living is ErrFenced when the replica may not write.
func (r *Reader) living(ctx context.Context, id string) error {
	_, err := one(ctx, r, scanString, "SELECT id FROM replicas WHERE id = $1 AND NOT fenced", id)
	if err == store.ErrNotFound {
		return fmt.Errorf("%w: %s", store.ErrFenced, id)
	}
	return err
}

// FenceNamesakes fences every other living replica of the name.
func (t *Tx) FenceNamesakes(ctx context.Context, name, except string) error {
	_, err := t.exec(ctx, "UPDATE replicas SET fenced = TRUE WHERE name = $1 AND id <> $2 AND NOT fenced", name, except)
	return err
}

// FenceReplica fences one.
func (t *Tx) FenceReplica(ctx context.Context, id string) error {
	_, err := t.exec(ctx, "UPDATE replicas SET fenced = TRUE WHERE id = $1 AND NOT fenced", id)
	return err
}

// FenceAll fences every living replica.
func (t *Tx) FenceAll(ctx context.Context) error {
	_, err := t.exec(ctx, "UPDATE replicas SET fenced = TRUE WHERE NOT fenced")
	return err
}

// InsertReplica adds one; ErrConflict when another of the name lives or the id is taken.
func (t *Tx) InsertReplica(ctx context.Context, p store.Replica) error {
	_, err := t.exec(ctx, "INSERT INTO replicas (id, name, beat, fenced, seen_at) VALUES ($1, $2, $3, FALSE, $4)",
		p.ID, p.Name, p.Beat, millis(t.d.now()))
	return err
}
