// This file builds the WHERE of reads: which rows a Scope sees, and pages. Reads of rows of Sessions begin with
// selecting, which has the Scope's condition; those of other tables begin with from, and name the Scope themselves
// (ofScope, blind).

package sqldb

import (
	"context"
	"slices"
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
//
// For one user's Turn the text is
//
//	SELECT … FROM turns t JOIN sessions s ON …
//	  WHERE COALESCE(s.deleted_at = 0 AND s.tenant = $1 AND s.user_id = $2, FALSE) AND t.turn_id = $3
func selecting(from string, in store.Scope) *query {
	q := &query{}
	q.sql.Grow(len(from) + 256)
	q.sql.WriteString(from)
	q.sql.WriteString(" WHERE ")
	return q.seenBy(in)
}

// seenBy adds the condition of whose rows count: those of living Sessions of the Scope's tenant and user. Queries of
// tables with Sessions' rows have it, so a foreign id is as unknown as one that does not exist. It is written so that no
// index can serve it and PostgreSQL takes it for one that many rows fulfil. As plain equalities it would be taken for
// one that a handful does, for as long as nothing is known of the tables, and a look-up by id would begin with all
// threads there are.
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

// from starts a query without that condition: of rows that belong to no Session, or that more may see than the Session's
// user. Its caller adds what restricts them.
func from(table string) *query { return (&query{}).raw(table + " WHERE TRUE") }

// blind reports whether the Scope sees nothing at all of the tables that name tenant and user themselves. Where "" in a
// row means "of every user" or "of no user", it must not match a caller without a name.
func blind(in store.Scope) bool {
	return !in.All() && !in.Wide() && (in.Tenant() == "" || in.User() == "")
}

// blindToApprovals is blind for rows of Sessions, of which the Scope of an Access sees some.
func blindToApprovals(in store.Scope) bool { return blind(in) && in.Session() == "" }

// ofScope adds the condition of whose rows the Scope sees in a table that names them itself, in these columns. It is for
// Scopes that see something (see blind).
func (q *query) ofScope(in store.Scope, tenant, user string) *query {
	if in.All() {
		return q
	}
	q.and(tenant+" = ", in.Tenant())
	if !in.Wide() {
		q.and(user+" = ", in.User())
	}
	return q
}

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

// bindAll adds placeholders for values, with commas between them.
func (q *query) bindAll(values []string) *query {
	for i, v := range values {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(v)
	}
	return q
}

// hasWords adds the condition that the text d has the words, and is the current text of the Session's title, or of the
// message m.
func (q *query) hasWords(d *Dialect, words []string) *query {
	q.raw("(m.message_id IS NULL AND d.text_id = d.session_id AND s.searched OR COALESCE(m.searched AND NOT m.replaced, FALSE))")
	for _, word := range words {
		q.raw(" AND " + d.Contains + "(d.body, ").bind(word).raw(") > 0")
	}
	return q
}

// listed adds the condition that the Scope's list of Sessions contains s.
func (q *query) listed(in store.Scope, archived *bool) *query {
	q.raw(" AND COALESCE(s.deleted_at = 0" + noChild)
	if !in.All() {
		q.and("s.tenant = ", in.Tenant())
	}
	q.raw(" AND (TRUE")
	if !in.All() && !in.Wide() {
		q.and("s.user_id = ", in.User())
	}
	if archived != nil {
		q.and("s.archived = ", *archived)
	}
	if names := in.Reached(); len(names) > 0 && (archived == nil || !*archived) {
		q.raw(" OR s.user_id <> ").bind(in.User()).raw(" AND EXISTS (SELECT 1 FROM shares h WHERE h.session_id = s.session_id AND ")
		q.sharedWith(in.Tenant(), names).raw(")")
	}
	return q.raw("), FALSE)")
}

// listedBy is the id by which a Scope's list is sorted. A list of less than all is in the order of an expression, which
// an index has that leads with whose rows they are: by the id itself a database may take the key's index, and go through
// everybody's rows for a page of one user's.
func listedBy(in store.Scope, id string) string {
	if in.All() {
		return id
	}
	return "(" + id + " || '')"
}

// value is a column and the text that a row must have in it.
type value struct{ column, is string }

// ofList adds the condition of a list: which rows the Scope sees, and of those the ones with a value in a column. It is
// written twice: as an expression over all columns, which the index of just this list begins with, and column by column,
// such that no other index can serve it. Of several that could, PostgreSQL would take the wrong one where it knows of one
// user with nearly all rows.
func (q *query) ofList(in store.Scope, tenant, user string, filter ...value) *query {
	of := filter
	if !in.All() {
		of = []value{{tenant, in.Tenant()}}
		if !in.Wide() {
			of = append(of, value{user, in.User()})
		}
		of = append(of, filter...)
	}
	if len(of) == 0 {
		return q
	}
	columns, values := make([]string, 0, len(of)+1), make([]string, 0, len(of)+1)
	for _, v := range of {
		columns, values = append(columns, v.column), append(values, v.is)
	}
	if len(of) == 1 {
		columns, values = append(columns, "''"), append(values, "")
	}
	q.and("("+strings.Join(columns, " || ':' || ")+") = ", strings.Join(values, ":")).raw(" AND COALESCE(TRUE")
	for _, v := range of {
		q.and(v.column+" = ", v.is)
	}
	return q.raw(", FALSE)")
}

// within adds the bounds of a page of a listing by id; after and before are the comparisons of its order. A page of all
// rows without bounds begins at the empty text, which every id is beyond: so SQLite says in its plan that it searches, and
// does not scan.
func (q *query) within(p store.Page, id, after, before string) *query {
	if p.After != "" {
		q.and(id+after, p.After)
	}
	if p.Before != "" {
		q.and(id+before, p.Before)
	}
	if p.After == "" && p.Before == "" && !strings.HasPrefix(id, "(") {
		q.raw(" AND " + id + " > ''")
	}
	return q
}

// oldestFirst pages a listing whose order is its id, ascending.
func (q *query) oldestFirst(id string, p store.Page) *query {
	return q.within(p, id, " > ", " < ").raw(" ORDER BY " + id).limit(p.Size())
}

// newestFirst reads a page of a listing whose order is its id, descending.
func newestFirst[T any](ctx context.Context, c *conn, scan func(row) (T, error), q *query, id string, p store.Page) ([]T, error) {
	return paged(ctx, c, scan, q.within(p, id, " < ", " > "), id+" DESC", id, p)
}

// paged reads a page of q, which has the page's bounds already, in the given order. Going back from a row takes those
// nearest to it, so the query has the opposite order then and its rows are turned round.
func paged[T any](ctx context.Context, c *conn, scan func(row) (T, error), q *query, order, opposite string, p store.Page) ([]T, error) {
	back := goesBack(p)
	if back {
		order = opposite
	}
	q.raw(" ORDER BY " + order).limit(p.Size())
	got, err := list(ctx, c, scan, q.sql.String(), q.args...)
	if back {
		slices.Reverse(got)
	}
	return got, err
}

// goesBack reports whether a page is the rows before a place. With both bounds it is read from After on.
func goesBack(p store.Page) bool { return p.Before != "" && p.After == "" }

// merged is one page of two listings that each were read with it. A row of the result is among the first of its own
// listing, so nothing is missed; what is beyond the page's size goes at the far end.
func merged[T any](a, b []T, p store.Page, order func(a, b T) int) []T {
	all := slices.Concat(a, b)
	slices.SortFunc(all, order)
	if over := len(all) - p.Size(); over > 0 && goesBack(p) {
		return all[over:]
	}
	return all[:min(len(all), p.Size())]
}

func (q *query) limit(n int) *query { return q.raw(" LIMIT ").bind(int64(n)) }

// upTo is q without the rows after the one that reaches a number of bytes, for a database that produces all rows of
// a query before the first is read. size is what each row counts, and columns what the caller scans. The inner query
// hands on where large values lie, not the values, so only those of the rows that are left are sent.
func (q *query) upTo(mostBytes int, columns, size, order string) *query {
	outer := &query{args: q.args}
	outer.raw("SELECT " + columns + " FROM (SELECT w.*, SUM(" + size + ") OVER (ORDER BY " + order + ") - " + size + " AS passed FROM (")
	outer.raw(q.sql.String()).raw(") w) v WHERE passed < CAST(").bind(int64(mostBytes))
	return outer.raw(" AS BIGINT) ORDER BY " + order)
}
