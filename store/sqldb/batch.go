// This file writes a Batch on SQLite. The same in PostgreSQL is store/postgres/committer.go, with the fence as a
// function of the database.

package sqldb

import (
	"context"
	"fmt"

	"aqueduct/store"
)

// What SQLite does with a Batch of the event log.
type batchTx struct{ *conn }

// Apply writes a Batch inside the transaction of t, which is the only writer of the database. It is how SQLite commits;
// PostgreSQL pipelines the same statements. After an error the transaction holds a part of the Batch and has to be
// rolled back.
func (t *batchTx) Apply(ctx context.Context, b *store.Batch) (store.Result, error) {
	var res store.Result
	if err := t.admit(ctx, b); err != nil {
		return res, err
	}
	for _, e := range b.Events {
		s := insertEvent(e)
		if err := t.run(ctx, s.SQL, s.Args...); err != nil {
			return res, err
		}
	}
	for _, e := range b.Records {
		s := insertRecord(e)
		if err := t.run(ctx, s.SQL, s.Args...); err != nil {
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
// rows needs none: their positions identify it.
func Number(b *store.Batch) int64 {
	if len(b.Events) > 0 {
		return 0
	}
	return b.Seq
}

// admit is the fence, and the answer to a Batch that has landed already.
func (t *batchTx) admit(ctx context.Context, b *store.Batch) error {
	seq := Number(b)
	if seq == 0 {
		return (&replicaReader{t.conn}).notFenced(ctx, b.Replica)
	}
	n, err := t.exec(ctx, "UPDATE replicas SET batch = $2 WHERE id = $1 AND NOT fenced AND batch < $2", b.Replica, seq)
	if err != nil || n > 0 {
		return err
	}
	if err := ((&replicaReader{t.conn}).notFenced(ctx, b.Replica)); err != nil {
		return err
	}
	return fmt.Errorf("%w: batch %d of replica %s has landed", store.ErrConflict, seq, b.Replica)
}
