package sqldb

import (
	"context"
	"fmt"
	"time"

	"aqueduct/store"
)

// row is what a scan function reads from: *sql.Rows at one of its rows.
type row interface{ Scan(dest ...any) error }

// one runs a query of at most one row; none is ErrNotFound.
func one[T any](ctx context.Context, r *Reader, scan func(row) (T, error), query string, args ...any) (T, error) {
	var got T
	found := false
	err := each(ctx, r, query, args, func(at row) (bool, error) {
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
func list[T any](ctx context.Context, r *Reader, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	var got []T
	err := each(ctx, r, query, args, func(at row) (bool, error) {
		v, err := scan(at)
		if err == nil {
			got = append(got, v)
		}
		return true, err
	})
	return got, err
}

// each calls fn for every row until it says no more.
func each(ctx context.Context, r *Reader, query string, args []any, fn func(row) (more bool, err error)) error {
	rows, err := r.q.QueryContext(ctx, query, clean(args)...)
	if err != nil {
		return r.d.Classify(err)
	}
	defer rows.Close() //nolint:errcheck // a read has nothing to lose when it ends
	for rows.Next() {
		more, err := fn(rows)
		if err != nil {
			return r.d.Classify(err)
		}
		if !more {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return r.d.Classify(err)
	}
	return nil
}

func scanString(at row) (string, error) {
	var s string
	err := at.Scan(&s)
	return s, err
}

// count is how many rows there are; the query bounds them.
func count(ctx context.Context, r *Reader, q *query) (n int, err error) {
	err = each(ctx, r, q.sql.String(), q.args, func(row) (bool, error) {
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
	if ms == 0 {
		*d.t = time.Time{}
	} else {
		*d.t = time.UnixMilli(ms).UTC()
	}
	return nil
}
