// This file joins the requests of all aggregates into a transaction, and has an error of one statement end it. Each
// method of store.Tx is promoted from the one aggregate that has it: with two of one name Tx would not implement it.

package sqldb

import (
	"context"
	"database/sql"

	"aqueduct/store"
)

// Tx is every read and every request of one transaction: those of each aggregate, which stand in its file, on the
// transaction's one connection.
type Tx struct {
	Reader
	agentTx
	approvalTx
	auditTx
	batchTx
	blobTx
	budgetTx
	branchTx
	commandTx
	contextTx
	credentialTx
	delegationTx
	deletionTx
	grantTx
	linkTx
	messageTx
	modelCallTx
	outboxTx
	partTx
	proxyTx
	recordTx
	replicaTx
	runTx
	sandboxTx
	searchTx
	sealedTx
	sessionTx
	shareTx
	taskTx
	toolTx
	toolCallTx
	turnTx

	broken   *breaker
	classify func(error) error
}

var _ store.Tx = (*Tx)(nil)

// NewTx works inside a transaction that its caller began and ends.
func NewTx(q Queryer, d *Dialect) *Tx {
	b := &breaker{q: q}
	c := &conn{q: b, d: d}
	return &Tx{
		c.reader(),
		agentTx{c}, approvalTx{c}, auditTx{c}, batchTx{c}, blobTx{c}, budgetTx{c}, branchTx{c}, commandTx{c}, contextTx{c}, credentialTx{c},
		delegationTx{c}, deletionTx{c}, grantTx{c}, linkTx{c}, messageTx{c}, modelCallTx{c}, outboxTx{c},
		partTx{c}, proxyTx{c}, recordTx{c}, replicaTx{c}, runTx{c}, sandboxTx{c}, searchTx{c},
		sealedTx{c}, sessionTx{c}, shareTx{c}, taskTx{c}, toolTx{c}, toolCallTx{c}, turnTx{c},

		b, d.Classify,
	}
}

// Err is the first error of a statement. A transaction that has one must be rolled
// back: PostgreSQL refuses whatever follows, so SQLite must not behave otherwise.
func (t *Tx) Err() error { return t.classify(t.broken.err) }

// breaker lets nothing pass after the first error, and remembers it: fn of an InTx may have gone on as if nothing was.
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

// Laterer is a Queryer that can put off statements whose result is not needed: PostgreSQL's, where each answer that is
// waited for costs a round trip. On SQLite there is nothing to save.
type Laterer interface {
	Later(query string, args ...any)
}

// later leaves a statement to a Queryer that can wait with it, and reports whether it did. An error of the statement
// comes from a later call, or from the commit, and so not through the caller of this one.
func (b *breaker) later(query string, args []any) bool {
	l, ok := b.q.(Laterer)
	if !ok || b.err != nil {
		return false
	}
	l.Later(query, args...)
	return true
}

func (b *breaker) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if b.err != nil {
		return nil, b.err
	}
	rows, err := b.q.QueryContext(ctx, query, args...)
	b.err = err
	return rows, err
}
