// This file joins the reads of all aggregates, and has the few ways in which a statement is run; they differ in what
// the number of rows that it touched means.

package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

// Reader is every read of the store: the reads of each aggregate, which stand in its file, on one connection.
type Reader struct {
	agendaReader
	agentReader
	approvalReader
	auditReader
	blobReader
	budgetReader
	branchReader
	commandReader
	contextReader
	credentialReader
	delegationReader
	deletionReader
	eventReader
	grantReader
	linkReader
	messageReader
	modelCallReader
	outboxReader
	partReader
	proxyReader
	recordReader
	replicaReader
	runReader
	sandboxReader
	searchReader
	sealedReader
	sessionReader
	shareReader
	taskReader
	toolReader
	toolCallReader
	turnReader
}

var _ store.Reader = (*Reader)(nil)

// NewReader reads through q, outside of any transaction.
func NewReader(q Queryer, d *Dialect) Reader { return (&conn{q: q, d: d, alone: true}).reader() }

func (c *conn) reader() Reader {
	return Reader{
		agendaReader{c}, agentReader{c}, approvalReader{c}, auditReader{c}, blobReader{c}, budgetReader{c}, branchReader{c}, commandReader{c}, contextReader{c}, credentialReader{c},
		delegationReader{c}, deletionReader{c}, eventReader{c}, grantReader{c}, linkReader{c}, messageReader{c}, modelCallReader{c},
		outboxReader{c}, partReader{c}, proxyReader{c}, recordReader{c}, replicaReader{c}, runReader{c},
		sandboxReader{c}, searchReader{c}, sealedReader{c}, sessionReader{c}, shareReader{c}, taskReader{c}, toolReader{c}, toolCallReader{c},
		turnReader{c},
	}
}

// conn is how Reader and Tx run SQL: on a database or in a transaction, in its dialect.
type conn struct {
	q     Queryer
	d     *Dialect
	alone bool // each statement is a transaction of its own
}

// exec runs a change and returns how many rows it touched.
func (c *conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := c.q.ExecContext(ctx, query, clean(args)...)
	if err != nil {
		return 0, c.d.Classify(err)
	}
	n, err := res.RowsAffected()
	return n, c.d.Classify(err)
}

// run is exec for a change that is right however many rows it touched.
func (c *conn) run(ctx context.Context, query string, args ...any) error {
	_, err := c.exec(ctx, query, args...)
	return err
}

// change is exec for a change of one row, a compare-and-set or an insert that gives way; false when it touched none.
func (c *conn) change(ctx context.Context, query string, args ...any) (bool, error) {
	n, err := c.exec(ctx, query, args...)
	return n > 0, err
}

// must runs a change of one row that has to be there.
func (c *conn) must(ctx context.Context, query string, args ...any) error {
	n, err := c.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// insert adds a row. Its error may come with a later statement, or with the commit.
func (c *conn) insert(ctx context.Context, query string, args ...any) error {
	if b, ok := c.q.(*breaker); ok && b.later(query, clean(args)) {
		return nil
	}
	return c.run(ctx, query, args...)
}

// revoke stamps a row of a table whose rows are revoked and otherwise never changed. It is false when the row was
// revoked before, and when the Scope does not see it.
func (c *conn) revoke(ctx context.Context, in store.Scope, table, key, id, by string, at time.Time) (bool, error) {
	if blind(in) {
		return false, nil
	}
	q := (&query{}).raw("UPDATE " + table + " SET revoked_at = ").bind(millis(at)).raw(", revoked_by = ").bind(by)
	// As in seenBy: no index can serve the Scope's condition, so that the row is found by its key.
	q.raw(" WHERE "+key+" = ").bind(id).raw(" AND COALESCE(revoked_at = 0").ofScope(in, "tenant", "user_id").raw(", FALSE)")
	return c.change(ctx, q.sql.String(), q.args...)
}
