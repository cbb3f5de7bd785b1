package sqldb

import (
	"cmp"
	"context"

	"aqueduct/store"
)

type (
	// A deleted Session is hidden at once and its rows go in the background, part by part.
	deletionReader struct{ *conn }

	// PurgeSession takes the next part of the rows, RemoveSession the Session itself when none are left.
	deletionTx struct{ *conn }
)

const (
	// purgeRows bounds the rows that one transaction of a deletion takes out of a table, and purgeBytes the bytes of those
	// whose rows may be large, so that the transaction ends soon and the one writer of SQLite serves others in between.
	purgeRows  = 200
	purgeBytes = 2 << 20
)

// purge is one table that holds rows of Sessions: which of them are a Session's, and how a part of them is deleted.
type purge struct {
	Table string
	// key is the column, or for events and parts the second half of the key, by which the rows differ.
	key string
	// of selects the Session's rows, which is $1. Tables without an index on session_id are found by their Runs.
	of string
	// order is the key as rows are sorted by it, where that is not the key itself: of rows that are found through other
	// tables a database would walk the key's whole index for its order.
	order string
	// size is the column that makes rows large; "" where none does. blob: it holds bytes, not JSON.
	size string
	blob bool
}

// purges are all tables with rows of a Session but sessions itself, in an order in which what is needed to find rows of
// one table is deleted behind them.
var purges = []purge{
	{Table: "events", key: "last_seq", of: ofSession, size: "data", blob: true},
	{Table: "events_cut", key: "last_seq", of: ofSession, size: "data", blob: true},
	{Table: "records", key: "id", of: ofSession, size: "payload"},
	{Table: "messages", key: "message_id", of: ofSession + " AND NOT replaced", size: "data"}, // each has an index of its own
	{Table: "messages", key: "message_id", of: ofSession + " AND replaced", size: "data"},
	{Table: "search_texts", key: "place", of: ofSession, size: "body", blob: true},
	{Table: "message_parts", key: "sha256", of: ofSession, size: "data", blob: true},
	{Table: "context_blobs", key: "context_key", of: ofSession + " AND session_id <> ''", size: "data", blob: true},
	{Table: "sealed_originals", key: "ref", of: ofSession, size: "data", blob: true},
	{Table: "model_calls", key: "call_id", of: ofSession},
	{Table: "budgets", key: "subject", of: ofSession + " AND session_id <> ''"},
	{Table: "decision_links", key: "link_id", order: "link_id || ''", of: "approval_id IN (SELECT a.approval_id FROM approvals a WHERE a.session_id = $1)"},
	{Table: "approvals", key: "approval_id", of: ofSession, size: "args"},
	{Table: "tool_calls", key: "tool_call_id", order: "tool_call_id || ''", of: ofTurns, size: "result"},
	{Table: "grants", key: "grant_id", of: ofSession + " AND session_id <> ''"},
	{Table: "shares", key: "share_id", of: ofSession},
	{Table: "commands", key: "command_id", of: ofSession},
	{Table: "outbox", key: "id", of: ofSession + " AND session_id <> ''", size: "payload"},
	{Table: "sandbox_instances", key: "session_id", of: ofSession},
	{Table: "sandbox_instances", key: "session_id", of: "of_session = $1 AND of_session <> ''"},
	{Table: "turns", key: "turn_id", of: ofSession, size: "input"},
	{Table: "runs", key: "run_id", of: ofSession, size: "profile"},
}

const (
	ofSession = "session_id = $1"
	// ofTurns: a Turn has a Run from its first moment, and Runs are found by their Session.
	ofTurns = "turn_id IN (SELECT r.turn_id FROM runs r WHERE r.session_id = $1)"
)

// PurgedTables are the tables whose rows PurgeSession deletes.
func PurgedTables() []string {
	tables := make([]string, len(purges))
	for i, p := range purges {
		tables[i] = p.Table
	}
	return tables
}

// sql deletes the first rows, up to the one that reaches the bound of bytes. That one included, so that a row larger
// than the bound goes too; passed is the size of the rows before each.
func (p purge) sql(d *Dialect) string {
	order := cmp.Or(p.order, p.key)
	if p.size == "" {
		return "DELETE FROM " + p.Table + " WHERE " + p.of + " AND " + p.key + " IN (SELECT " + p.key + " FROM " + p.Table +
			" WHERE " + p.of + " ORDER BY " + order + " LIMIT $2)"
	}
	octets := d.octets(p.size)
	if p.blob {
		octets = "octet_length(" + p.size + ")"
	}
	return "DELETE FROM " + p.Table + " WHERE " + p.of + " AND " + p.key + " IN (SELECT " + p.key + " FROM (SELECT " + p.key +
		", SUM(size) OVER (ORDER BY " + p.key + ") - size AS passed FROM (SELECT " + p.key + ", " + octets + " AS size FROM " +
		p.Table + " WHERE " + p.of + " ORDER BY " + order + " LIMIT $2) w) v WHERE passed < CAST($3 AS BIGINT))"
}

// PurgeSession implements store.DeletionTx. One call deletes from tables in their order until one of them may hold more,
// so it is called until done; a call that fails, or is never repeated by a process that ended, leaves a Session that is
// hidden and listed by DeletedSessions still.
func (t *deletionTx) PurgeSession(ctx context.Context, id string) (done bool, err error) {
	// The row is blanked and so held from the first part on; ids of another kind are never hidden Sessions.
	err = t.must(ctx, `UPDATE sessions SET title = '', state = NULL, external_id = session_id WHERE session_id = $1
		AND deleted_at > 0`, id)
	if err != nil {
		return false, err
	}
	for _, p := range purges {
		args := []any{id, int64(purgeRows)}
		if p.size != "" {
			args = append(args, int64(purgeBytes))
		}
		n, err := t.exec(ctx, p.sql(t.d), args...)
		if err != nil || n == purgeRows || n > 0 && p.size != "" {
			return false, err // there may be more
		}
	}
	return true, nil
}

// RemoveSession implements store.DeletionTx.
func (t *deletionTx) RemoveSession(ctx context.Context, id string) error {
	return t.run(ctx, "DELETE FROM sessions WHERE session_id = $1 AND deleted_at > 0", id)
}

// DeletedSessions implements store.DeletionReader.
func (r *deletionReader) DeletedSessions(ctx context.Context, in store.Scope, limit int) ([]store.Deleted, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, func(at row) (d store.Deleted, err error) {
		return d, at.Scan(&d.ID, &d.Tenant, timeInto{&d.At})
	}, `SELECT s.session_id, s.tenant, s.deleted_at FROM sessions s WHERE s.deleted_at > 0
		ORDER BY s.deleted_at, s.session_id LIMIT $1`, int64(store.Page{Limit: limit}.Size()))
}
