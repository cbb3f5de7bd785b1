package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// preparer is a *sql.DB or a *sql.Conn.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepared keeps one prepared statement per SQL text: parsing is most of what a small
// statement costs. sqldb makes a bounded number of texts, so nothing is ever dropped.
//
// A statement that has begun is not interrupted when its context ends: it is short, it
// runs in our own process, and the driver would need a goroutine for each to watch.
type prepared struct {
	source preparer
	sent   func(query string, args []any) // Options.Sent
	stmts  sync.Map                       // string → *sql.Stmt
}

func (p *prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.stmt(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.WithoutCancel(ctx), args...)
}

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.stmt(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.WithoutCancel(ctx), args...)
}

// stmt is the prepared statement of a text. Of a *sql.DB it is one for all its connections, which database/sql prepares
// on each that runs it.
func (p *prepared) stmt(ctx context.Context, query string, args []any) (*sql.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.sent != nil {
		p.sent(query, args)
	}
	if s, ok := p.stmts.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := p.source.PrepareContext(context.WithoutCancel(ctx), query)
	if err != nil {
		return nil, err
	}
	if other, raced := p.stmts.LoadOrStore(query, s); raced {
		_ = s.Close() // the same text prepared twice at once; one is enough
		return other.(*sql.Stmt), nil
	}
	return s, nil
}

func (p *prepared) close() error {
	var errs []error
	p.stmts.Range(func(_, s any) bool {
		errs = append(errs, s.(*sql.Stmt).Close())
		return true
	})
	p.stmts.Clear()
	return errors.Join(errs...)
}
