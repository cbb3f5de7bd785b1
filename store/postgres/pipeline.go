package postgres

import (
	"context"
	"database/sql"
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

func begin(conn *sql.Conn) *pipeline {
	p := &pipeline{conn: conn, later: &pgx.Batch{}}
	p.Later("BEGIN ISOLATION LEVEL READ COMMITTED")
	return p
}

// Later queues a statement whose result nobody needs; its error comes with what is sent
// next, at the latest with the commit.
func (p *pipeline) Later(query string, args ...any) { p.later.Queue(query, args...) }

// ExecContext implements sqldb.Queryer.
func (p *pipeline) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	return p.conn.ExecContext(ctx, query, args...)
}

// QueryContext implements sqldb.Queryer.
func (p *pipeline) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	return p.conn.QueryContext(ctx, query, args...)
}

func (p *pipeline) flush(ctx context.Context) error {
	if p.later.Len() == 0 {
		return nil
	}
	batch := p.later
	p.later, p.open = &pgx.Batch{}, true
	return p.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("postgres: the pool holds a %T", driver)
		}
		return conn.Conn().SendBatch(ctx, batch).Close()
	})
}

// commit ends the transaction with all that is queued.
func (p *pipeline) commit(ctx context.Context) error {
	p.Later("COMMIT")
	err := p.flush(ctx)
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
