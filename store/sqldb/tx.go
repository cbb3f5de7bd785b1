package sqldb

import (
	"context"
	"database/sql"

	"aqueduct/store"
)

// Tx is every read and every request of one transaction.
type Tx struct {
	*Reader
	broken *breaker
}

var _ store.Tx = (*Tx)(nil)

// NewTx works inside a transaction that its caller began and ends.
func NewTx(q Queryer, d *Dialect) *Tx {
	b := &breaker{q: q}
	return &Tx{Reader: NewReader(b, d), broken: b}
}

// Err is the first error of a statement. A transaction that has one must be rolled
// back: PostgreSQL refuses whatever follows, so SQLite must not behave otherwise.
func (t *Tx) Err() error {
	if t.broken.err == nil {
		return nil
	}
	return t.d.Classify(t.broken.err)
}

// must runs a change of one row that has to be there.
func (t *Tx) must(ctx context.Context, query string, args ...any) error {
	n, err := t.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// breaker lets nothing pass after the first error.
type breaker struct {
	q   Queryer
	err error
}

func (b *breaker) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if b.err != nil {
		return nil, b.err
	}
	res, err := b.q.ExecContext(ctx, query, args...)
	b.err = err
	return res, err
}

// Laterer is a Queryer that can wait with statements whose result nobody needs.
type Laterer interface {
	Later(query string, args ...any)
}

// insert adds a row. Its error may come with a later statement, or with the commit.
func (t *Tx) insert(ctx context.Context, query string, args ...any) error {
	if l, ok := t.broken.q.(Laterer); ok && t.broken.err == nil {
		l.Later(query, clean(args)...)
		return nil
	}
	_, err := t.exec(ctx, query, args...)
	return err
}

func (b *breaker) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if b.err != nil {
		return nil, b.err
	}
	rows, err := b.q.QueryContext(ctx, query, args...)
	b.err = err
	return rows, err
}
