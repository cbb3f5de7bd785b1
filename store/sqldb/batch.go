package sqldb

import (
	"context"

	"aqueduct/store"
)

// Apply writes a Batch inside the transaction of t, which is the only writer of the
// database. It is how SQLite commits; PostgreSQL pipelines the same statements.
func (t *Tx) Apply(ctx context.Context, b *store.Batch) (store.Result, error) {
	var res store.Result
	if err := t.living(ctx, b.Replica); err != nil {
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

func (t *Tx) run(ctx context.Context, s Statement) error {
	_, err := t.exec(ctx, s.SQL, s.Args...)
	return err
}
