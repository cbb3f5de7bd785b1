package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// writer is the one connection that writes. Its turn is a channel, which serves those
// who wait in the order they came; a pool of database/sql picks one at random.
type writer struct {
	turn chan struct{} // holds a token while somebody writes
	db   *sql.DB
	conn *sql.Conn
	q    *prepared
}

var errClosed = fmt.Errorf("%w: the store is closed", store.ErrUnavailable)

func (w *writer) connect(ctx context.Context) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.q = conn, &prepared{source: conn}
	return nil
}

// inTx runs fn in one transaction that has the write lock from its beginning. Only
// fn's statements see the end of ctx: COMMIT is decided once it is reached.
func (w *writer) inTx(ctx context.Context, fn func(context.Context, sqldb.Queryer) error) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting to write: %w", store.ErrUnavailable, ctx.Err())
	}
	if w.conn == nil {
		return errClosed
	}
	if _, err := w.q.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return classify(err)
	}
	done := false
	defer func() {
		if !done { // also when fn panics
			w.rollback(ctx)
		}
	}()
	if err := fn(ctx, w.q); err != nil {
		return err
	}
	if _, err := w.q.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return classifyCommit(err)
	}
	done = true
	return nil
}

// rollback ends a transaction that failed. Some failures (a full disk) have ended it
// already, so its own error says nothing.
func (w *writer) rollback(ctx context.Context) {
	_, _ = w.q.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
}

// close waits for the write in progress and lets no other begin.
func (w *writer) close() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.conn == nil {
		return w.db.Close()
	}
	conn := w.conn
	w.conn = nil
	return errors.Join(w.q.close(), conn.Close(), w.db.Close())
}
