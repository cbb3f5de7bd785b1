// This file is a transaction of a request, over the pool. It is a sqldb.Laterer: statements without a result are put
// off and sent with the next one that has one.

package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// pipeline is one transaction on one connection of the pool. What needs no answer waits
// and goes out together with what comes next, in one write: a request that only inserts
// costs one round trip, BEGIN and COMMIT included.
type pipeline struct {
	conn  *sql.Conn
	later *pgx.Batch // not sent yet
	open  bool       // BEGIN has been sent
}

// begin makes a transaction of which nothing has been sent yet.
func begin(conn *sql.Conn) *pipeline {
	p := &pipeline{conn: conn, later: &pgx.Batch{}}
	p.Later("BEGIN ISOLATION LEVEL READ COMMITTED")
	return p
}

// Later queues a statement whose result is not needed; its error comes with what is sent
// next, at the latest with the commit.
func (p *pipeline) Later(query string, args ...any) { p.later.Queue(query, args...) }

// ExecContext implements sqldb.Queryer.
func (p *pipeline) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if p.later.Len() == 0 {
		return p.conn.ExecContext(ctx, query, args...)
	}
	p.Later(query, args...)
	n, err := p.flush(ctx)
	return driver.RowsAffected(n), err
}

// QueryContext implements sqldb.Queryer.
func (p *pipeline) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.later.Len() > 0 {
		if _, err := p.flush(ctx); err != nil {
			return nil, err
		}
	}
	return p.conn.QueryContext(ctx, query, args...)
}

// flush sends all that is queued and returns how many rows the last of it touched. BEGIN may be among it, so from then
// on the transaction counts as open, even where sending failed: a ROLLBACK too many does no harm.
func (p *pipeline) flush(ctx context.Context) (touched int64, err error) {
	batch := p.later
	p.later, p.open = &pgx.Batch{}, true
	err = p.conn.Raw(func(pooled any) error {
		conn, ok := pooled.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("postgres: the pool holds a %T", pooled)
		}
		results := conn.Conn().SendBatch(ctx, batch)
		for range batch.Len() {
			tag, err := results.Exec()
			if err != nil {
				_ = results.Close() // it returns the same error
				return err
			}
			touched = tag.RowsAffected()
		}
		return results.Close()
	})
	return touched, err
}

// commit ends the transaction with all that is queued.
func (p *pipeline) commit(ctx context.Context) error {
	p.Later("COMMIT")
	_, err := p.flush(ctx)
	if err == nil {
		p.open = false
	}
	return err
}

// rollback ends it without; after a commit it does nothing.
func (p *pipeline) rollback(ctx context.Context) {
	if p.open {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		_, _ = p.conn.ExecContext(ctx, "ROLLBACK") // a connection that cannot is dropped by the pool
	}
}
