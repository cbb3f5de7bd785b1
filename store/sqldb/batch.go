package sqldb

import (
	"context"
	"fmt"

	"aqueduct/store"
)

// Apply writes a Batch inside the transaction of t, which is the only writer of the
// database. It is how SQLite commits; PostgreSQL pipelines the same statements.
func (t *Tx) Apply(ctx context.Context, b *store.Batch) (store.Result, error) {
	var res store.Result
	if err := t.admit(ctx, b); err != nil {
		return res, err
	}
	for _, e := range b.Events {
		if err := t.run(ctx, InsertEvent(e)); err != nil {
			return res, err
		}
	}
	for _, e := range b.Records {
		if err := t.run(ctx, InsertRecord(e)); err != nil {
			return res, err
		}
	}
	for i, m := range b.Moves {
		s, err := moveStatement(m)
		if err != nil {
			return store.Result{}, err
		}
		n, err := t.exec(ctx, s.SQL, s.Args...)
		if err != nil {
			return store.Result{}, err
		}
		if s.CAS && n == 0 {
			res.Lost = append(res.Lost, i)
		}
	}
	return res, nil
}

// Number is what a Batch leaves at its replica to be known again by. One with event
// rows needs none: their positions tell.
func Number(b *store.Batch) int64 {
	if len(b.Events) > 0 {
		return 0
	}
	return b.Seq
}

// admit is the fence, and the answer to a Batch that has landed already.
func (t *Tx) admit(ctx context.Context, b *store.Batch) error {
	seq := Number(b)
	if seq == 0 {
		return t.living(ctx, b.Replica)
	}
	n, err := t.exec(ctx, "UPDATE replicas SET batch = $2 WHERE id = $1 AND NOT fenced AND batch < $2", b.Replica, seq)
	if err != nil || n > 0 {
		return err
	}
	if err := t.living(ctx, b.Replica); err != nil {
		return err
	}
	return fmt.Errorf("%w: batch %d of replica %s has landed", store.ErrConflict, seq, b.Replica)
}

func (t *Tx) run(ctx context.Context, s Statement) error {
	_, err := t.exec(ctx, s.SQL, s.Args...)
	return err
}
