// This file is how rows are read. A scan function reads one row; the columns that it expects stand beside it, in the
// constant of its SELECT.

package sqldb

import (
	"context"
	"fmt"
	"time"

	"aqueduct/store"
)

// row is what a scan function reads from: *sql.Rows at one of its rows.
type row interface{ Scan(dest ...any) error }

// one runs a query of at most one row; none is ErrNotFound. Rows behind the first are not read, so a query that may
// find several has an ORDER BY that decides.
func one[T any](ctx context.Context, c *conn, scan func(row) (T, error), query string, args ...any) (T, error) {
	var got T
	found := false
	err := each(ctx, c, query, args, func() { found = false }, func(at row) (bool, error) {
		v, err := scan(at)
		got, found = v, true
		return false, err
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return got, err
}

// list runs a query and scans every row.
func list[T any](ctx context.Context, c *conn, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	var got []T
	err := each(ctx, c, query, args, func() { got = nil }, func(at row) (bool, error) {
		v, err := scan(at)
		if err == nil {
			got = append(got, v)
		}
		return true, err
	})
	return got, err
}

// each calls fn for every row until it returns false. The connection is busy until each returns, so fn must not run
// another query: in a transaction there is only this one connection, and outside of it the pool may be used up.
// A connection may break between two rows, and then a patient read begins anew (store.Patient): reset forgets the rows
// that fn was called with, and is called before the first of each try.
func each(ctx context.Context, c *conn, query string, args []any, reset func(), fn func(row) (more bool, err error)) error {
	return c.read(ctx, func(ctx context.Context) error {
		reset()
		rows, err := c.q.QueryContext(ctx, query, clean(args)...)
		if err != nil {
			return c.d.Classify(err)
		}
		defer rows.Close() // a read loses no data when it ends
		for rows.Next() {
			more, err := fn(rows)
			if err != nil {
				return c.d.Classify(err)
			}
			if !more {
				return nil
			}
		}
		return c.d.Classify(rows.Err())
	})
}

// scanning is the scan function of a table's columns whose destinations into gives.
func scanning[T any](into func(*T) []any) func(row) (T, error) {
	return func(at row) (T, error) {
		var got T
		err := at.Scan(into(&got)...)
		return got, err
	}
}

func scanString(at row) (string, error) {
	var s string
	err := at.Scan(&s)
	return s, err
}

func scanInt(at row) (n int64, err error) { return n, at.Scan(&n) }

func scanTime(at row) (t time.Time, err error) { return t, at.Scan(timeInto{&t}) }

// count is how many rows there are; the query bounds them by a LIMIT. It is for counts of which only "as many as may
// be" matters: COUNT(*) would walk all of them.
func count(ctx context.Context, c *conn, q *query) (n int, err error) {
	err = each(ctx, c, q.sql.String(), q.args, func() { n = 0 }, func(row) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// timeInto scans Unix milliseconds; 0 is the zero time.
type timeInto struct{ t *time.Time }

// Scan implements sql.Scanner.
func (d timeInto) Scan(src any) error {
	ms, ok := src.(int64)
	if !ok {
		return fmt.Errorf("sqldb: a time is stored as %T", src)
	}
	*d.t = fromMillis(ms)
	return nil
}
