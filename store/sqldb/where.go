package sqldb

import (
	"strconv"
	"strings"

	"aqueduct/store"
)

// query builds a SELECT whose tables include sessions as s. Few shapes come out of
// it, so a cache of prepared statements stays small.
type query struct {
	sql  strings.Builder
	args []any
}

// selecting starts a query that sees only rows of living Sessions in the Scope. from
// must join sessions as s and end before WHERE.
func selecting(from string, in store.Scope) *query {
	q := &query{}
	q.sql.Grow(len(from) + 256)
	q.sql.WriteString(from)
	q.sql.WriteString(" WHERE ")
	return q.seenBy(in)
}

// seenBy adds the condition of whose rows count. It is written so that no index can serve it
// and PostgreSQL takes it for one that many rows fulfil. As plain equalities it would be taken
// for one that a handful does, for as long as nothing is known of the tables, and a look-up
// by id would begin with all threads there are.
func (q *query) seenBy(in store.Scope) *query {
	q.raw("COALESCE(s.deleted_at = 0")
	if !in.All() {
		q.and("s.tenant = ", in.Tenant())
	}
	switch {
	case in.All() || in.Wide():
	case in.Session() != "":
		q.and("s.session_id = ", in.Session())
	default:
		q.and("s.user_id = ", in.User())
	}
	return q.raw(", FALSE)")
}

// living makes the partial indexes of sessions fit, which seenBy alone does not.
const living = " AND s.deleted_at = 0"

// from starts a query of rows that belong to no Session.
func from(table string) *query { return (&query{}).raw(table + " WHERE TRUE") }

// blind reports whether the Scope sees nothing at all. Where "" in a row means "of every
// user" or "of nobody", it must not be taken for a caller without a name.
func blind(in store.Scope) bool {
	return !in.All() && !in.Wide() && (in.Tenant() == "" || in.User() == "")
}

// blindToApprovals is blind for rows of Sessions, of which the Scope of an Access sees some.
func blindToApprovals(in store.Scope) bool { return blind(in) && in.Session() == "" }

// and adds a condition that ends in the value.
func (q *query) and(cond string, value any) *query {
	return q.raw(" AND ").raw(cond).bind(value)
}

// raw adds text.
func (q *query) raw(text string) *query {
	q.sql.WriteString(text)
	return q
}

// bind adds a placeholder for the value.
func (q *query) bind(value any) *query {
	q.args = append(q.args, value)
	q.sql.WriteByte('$')
	q.sql.WriteString(strconv.Itoa(len(q.args)))
	return q
}

// oldestFirst pages a listing whose order is its id, ascending.
func (q *query) oldestFirst(id string, p store.Page) *query {
	if p.After != "" {
		q.and(id+" > ", p.After)
	}
	if p.Before != "" {
		q.and(id+" < ", p.Before)
	}
	return q.raw(" ORDER BY " + id).limit(p.Size())
}

// newestFirst pages a listing whose order is its id, descending; back says that the rows
// come the other way round.
func (q *query) newestFirst(id string, p store.Page) (back bool) {
	if p.After != "" {
		q.and(id+" < ", p.After)
	}
	if p.Before != "" {
		q.and(id+" > ", p.Before)
	}
	back = p.Before != "" && p.After == ""
	q.raw(" ORDER BY " + id)
	if !back {
		q.raw(" DESC")
	}
	q.limit(p.Size())
	return back
}

func (q *query) limit(n int) *query { return q.raw(" LIMIT ").bind(int64(n)) }
