// Package sqldb holds the SQL of the store once for both databases, over database/sql
// with $n placeholders. What differs between them is in Dialect; opening, committing
// and fencing belong to store/sqlite and store/postgres.
//
// A file holds one aggregate: its columns, its reads, what a request may change of it, and the statements of the Moves
// by which the owner of a Session changes it in a Batch. reader.go and tx.go join the aggregates. Shared by all are
// where.go (which rows a Scope sees, and pages), scan.go and bind.go (values), field.go and update.go (a Move as SQL)
// and group.go (the Moves of a Batch as few statements).
//
// The package knows the state machines and refuses a move against them, but no other rule of the product: which moves
// are made together, and when, is decided above. It begins and ends no transaction and reads no clock but Dialect.Now.
//
// Every SQL text is built from constants and from which arguments there are, never from their values: store/sqlite keeps
// each text as a prepared statement for good, and pgx caches them by connection.
package sqldb

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"aqueduct/store"
)

// Queryer runs SQL: *sql.DB, *sql.Tx, *sql.Conn or a cache of prepared statements.
type Queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Dialect is what the two databases do not share.
type Dialect struct {
	// LockRow ends a SELECT whose rows are held until the end of the transaction.
	LockRow string
	// StreamsRows: rows not read are never produced, so a reader that stops early costs
	// nothing. Otherwise a byte budget must be part of the query.
	StreamsRows bool
	// LockAudit is a statement that holds off others who append to the audit until the end
	// of the transaction; "" where there is only one writer anyway.
	LockAudit string
	// AuditKey makes the MACs of the audit's entries; the zero value makes none.
	AuditKey store.AuditKey
	// SkipLocked ends a SELECT whose rows are held until the end of the transaction, without
	// those that another holds; "" where there is only one writer anyway.
	SkipLocked string
	// ItemsOf is the function that gives the items of a JSON list as rows of a column "value".
	ItemsOf string
	// SizeOf is the form of the number of bytes in a column of JSON, %s its name.
	SizeOf string
	// TokenTable is set if the tokens of the search are in the full-text table search_index, not in a column.
	TokenTable bool
	// NextPlace is the SQL expression for the place of a further text of the search.
	NextPlace string
	// Contains is the function that returns the position of a text in another one, or 0.
	Contains string
	// Classify turns an error of the driver into one of store's, keeping it wrapped.
	Classify func(error) error
	// Now is the clock of Beat, Register and delegations; nil is time.Now.
	Now func() time.Time
}

func (d *Dialect) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// items is a table of the items of a column's JSON list; none where it is NULL.
func (d *Dialect) items(column string) string { return d.ItemsOf + "(" + column + ")" }

// octets is the number of bytes in a column of JSON; 0 where it is NULL.
func (d *Dialect) octets(column string) string {
	return "COALESCE(" + strings.Replace(d.SizeOf, "%s", column, 1) + ", 0)"
}
