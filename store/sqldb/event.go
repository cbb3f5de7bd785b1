package sqldb

import (
	"context"

	"aqueduct/store"
)

// Reads of the event log: rows of encoded events, each of which holds the positions up to last_seq.
type eventReader struct{ *conn }

const selectEvents = `SELECT e.last_seq, e.n, e.ts, e.data, e.session_id, e.mark FROM events e
	JOIN sessions s ON s.session_id = e.session_id`

// rowsPerRead bounds one read of the log where the byte budget is part of the query:
// sizes of more rows than this are not looked at.
const rowsPerRead = 512

func scanEvent(at row) (store.EventRow, error) {
	var e store.EventRow
	err := at.Scan(&e.LastSeq, &e.N, timeInto{&e.TS}, &e.Data, &e.SessionID, &e.Cursor)
	return e, err
}

// Events implements store.EventReader. It stops before a hole: with two connections
// that commit out of order, a later row can be visible before an earlier one.
func (r *eventReader) Events(ctx context.Context, in store.Scope, sessionID string, after int64, maxBytes int) ([]store.EventRow, error) {
	q := r.eventsQuery(in, sessionID, after, maxBytes)
	var got []store.EventRow
	next, size := after+1, 0
	reset := func() { got, next, size = nil, after+1, 0 }
	err := each(ctx, r.conn, q.sql.String(), q.args, reset, func(at row) (bool, error) {
		e, err := scanEvent(at)
		if err != nil {
			return false, err
		}
		// Only the first row may begin before the position.
		if first := e.FirstSeq(); first > next || (len(got) > 0 && first < next) {
			return false, nil
		}
		got = append(got, e)
		next, size = e.LastSeq+1, size+len(e.Data)
		return size < maxBytes, nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// eventsQuery is the log behind a position, up to about maxBytes, where the database can be asked for that: a reader
// that catches up from the beginning of a long log must not have all of it sent before it has taken the first row.
func (r *eventReader) eventsQuery(in store.Scope, sessionID string, after int64, maxBytes int) *query {
	q := selecting(selectEvents, in).and("e.session_id = ", sessionID).and("e.last_seq > ", after)
	q.raw(" ORDER BY e.last_seq LIMIT ").bind(int64(rowsPerRead))
	if r.d.StreamsRows {
		return q
	}
	return q.upTo(max(maxBytes, 1), "last_seq, n, ts, data, session_id, mark", "length(data)", "last_seq")
}

// LastSeq implements store.EventReader.
func (r *eventReader) LastSeq(ctx context.Context, in store.Scope, sessionID string) (int64, error) {
	q := selecting(`SELECT COALESCE((SELECT MAX(e.last_seq) FROM events e WHERE e.session_id = s.session_id), 0)
		FROM sessions s`, in).and("s.session_id = ", sessionID)
	return one(ctx, r.conn, scanInt, q.sql.String(), q.args...)
}

// EventBytes implements store.EventReader. Both databases know the length of a row's bytes without
// reading them.
func (r *eventReader) EventBytes(ctx context.Context, in store.Scope, sessionID string) (int64, error) {
	q := selecting(`SELECT COALESCE((SELECT CAST(SUM(LENGTH(e.data)) AS BIGINT) FROM events e WHERE e.session_id = s.session_id), 0)
		FROM sessions s`, in).and("s.session_id = ", sessionID)
	return one(ctx, r.conn, scanInt, q.sql.String(), q.args...)
}

// TenantBytes implements store.EventReader. Triggers of sessions keep the sum.
func (r *eventReader) TenantBytes(ctx context.Context, in store.Scope, tenant string) (int64, error) {
	if !in.All() {
		return 0, nil
	}
	return one(ctx, r.conn, scanInt, "SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM tenant_bytes WHERE tenant = $1", tenant)
}

// LastCursor implements store.EventReader. The condition is the partial index of marked rows,
// so a long log without any is not walked.
func (r *eventReader) LastCursor(ctx context.Context, in store.Scope, sessionID string) (string, error) {
	q := selecting(`SELECT COALESCE((SELECT e.mark FROM events e WHERE e.session_id = s.session_id AND e.mark <> ''
		ORDER BY e.last_seq DESC LIMIT 1), '') FROM sessions s`, in).and("s.session_id = ", sessionID)
	return one(ctx, r.conn, scanString, q.sql.String(), q.args...)
}

// CutLogs implements store.Store. Its table is empty except in databases from before the chain of rows was checked.
func (r *eventReader) CutLogs(ctx context.Context) ([]store.CutLog, error) {
	q := selecting(`SELECT DISTINCT c.session_id, s.external_id, c.kept FROM events_cut c JOIN sessions s ON s.session_id = c.session_id`, store.System())
	q.raw(" ORDER BY c.session_id LIMIT 100")
	return list(ctx, r.conn, func(at row) (c store.CutLog, err error) {
		return c, at.Scan(&c.SessionID, &c.ExternalID, &c.After)
	}, q.sql.String(), q.args...)
}

// insertEvent is the statement that appends one row. Its key is the Session and the last position, so a Batch that is
// sent twice, or a second writer, is a conflict and never a second row.
func insertEvent(e store.EventRow) Statement {
	return Statement{
		SQL:  "INSERT INTO events (session_id, last_seq, n, ts, data, mark) VALUES ($1, $2, $3, $4, $5, $6)",
		Args: []any{e.SessionID, e.LastSeq, int64(e.N), millis(e.TS), e.Data, Text(e.Cursor)},
	}
}
