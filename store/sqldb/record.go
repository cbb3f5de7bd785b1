package sqldb

import (
	"context"

	"aqueduct/store"
)

const selectRecord = `SELECT e.id, e.session_id, e.turn_id, e.source, e.type, e.at_seq, e.ts, e.payload
	FROM records e JOIN sessions s ON s.session_id = e.session_id`

const selectPlaced = `SELECT e.id, e.session_id, e.turn_id, e.source, e.type, e.at_seq, e.ts, e.payload, e.pos
	FROM records e JOIN sessions s ON s.session_id = e.session_id`

func scanPlaced(at row) (store.PlacedRecord, error) {
	var e store.PlacedRecord
	err := at.Scan(&e.ID, &e.SessionID, &e.TurnID, &e.Source, &e.Type, &e.AtSeq, timeInto{&e.TS}, &e.Payload, &e.Pos)
	return e, err
}

func scanRecord(at row) (store.Record, error) {
	var e store.Record
	err := at.Scan(&e.ID, &e.SessionID, &e.TurnID, &e.Source, &e.Type, &e.AtSeq, timeInto{&e.TS}, &e.Payload)
	return e, err
}

// RecordsOfTurn implements store.RecordReader. The index on turn_id is led on by pos, so the id is written such that no
// index serves the order: before the first ANALYZE PostgreSQL walks the whole primary key for it.
func (r *Reader) RecordsOfTurn(ctx context.Context, in store.Scope, turnID string, page store.Page) ([]store.Record, error) {
	q := selecting(selectRecord, in).and("e.turn_id = ", turnID).raw(ofSomeTurn).oldestFirst("(e.id || '')", page)
	return list(ctx, r, scanRecord, q.sql.String(), q.args...)
}

// RecordsOfType implements store.RecordReader.
func (r *Reader) RecordsOfType(ctx context.Context, in store.Scope, kind string, page store.Page) ([]store.Record, error) {
	q := selecting(selectRecord, in).and("e.type = ", kind).oldestFirst("e.id", page)
	return list(ctx, r, scanRecord, q.sql.String(), q.args...)
}

// RecordsOfSession implements store.RecordReader.
func (r *Reader) RecordsOfSession(ctx context.Context, in store.Scope, sessionID string, after int64, limit int) ([]store.PlacedRecord, error) {
	q := selecting(selectPlaced, in).and("e.session_id = ", sessionID).and("e.pos > ", after)
	q.raw(" ORDER BY e.pos").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanPlaced, q.sql.String(), q.args...)
}

// PlacedRecordsOfTurn implements store.RecordReader.
func (r *Reader) PlacedRecordsOfTurn(ctx context.Context, in store.Scope, turnID string, after int64, limit int) ([]store.PlacedRecord, error) {
	q := selecting(selectPlaced, in).and("e.turn_id = ", turnID).raw(ofSomeTurn).and("e.pos > ", after)
	q.raw(" ORDER BY e.pos").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanPlaced, q.sql.String(), q.args...)
}

// ofSomeTurn lets the partial index on turn_id be used.
const ofSomeTurn = " AND e.turn_id <> ''"

// RecordsUnsequenced implements store.RecordReader.
func (r *Reader) RecordsUnsequenced(ctx context.Context, in store.Scope, sessionID, turnID string) (bool, error) {
	q := selecting("SELECT e.id FROM records e JOIN sessions s ON s.session_id = e.session_id", in)
	if turnID != "" {
		q.and("e.turn_id = ", turnID).raw(ofSomeTurn)
	} else {
		q.and("e.session_id = ", sessionID)
	}
	q.raw(" AND e.pos = 0 LIMIT 1")
	got, err := list(ctx, r, scanString, q.sql.String(), q.args...)
	return len(got) > 0, err
}

// SequenceRecords implements store.RecordTx. By id: the index on (session_id, pos, id) then finds the oldest ones
// without reading what was written since.
func (t *Tx) SequenceRecords(ctx context.Context, sessionID string, limit int) (int64, error) {
	last, err := one(ctx, t.Reader, scanInt, "SELECT COALESCE(MAX(pos), 0) FROM records WHERE session_id = $1", sessionID)
	if err != nil {
		return 0, err
	}
	return t.exec(ctx, `UPDATE records SET pos = CAST($2 AS BIGINT) + n.place FROM (
		SELECT e.id, ROW_NUMBER() OVER (ORDER BY e.id) AS place FROM (
			SELECT id FROM records WHERE session_id = $1 AND pos = 0 ORDER BY id LIMIT $3) e) n
		WHERE records.id = n.id`, sessionID, last, int64(store.Page{Limit: limit}.Size()))
}

// InsertRecord implements store.RecordTx.
func (t *Tx) InsertRecord(ctx context.Context, e store.Record) error {
	s := InsertRecord(e)
	return t.insert(ctx, s.SQL, s.Args...)
}

// InsertRecord is the statement that keeps a Record.
func InsertRecord(e store.Record) Statement {
	return Statement{
		SQL: `INSERT INTO records (id, session_id, turn_id, source, type, at_seq, ts, payload)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		Args: clean([]any{e.ID, e.SessionID, e.TurnID, string(e.Source), e.Type, e.AtSeq, millis(e.TS),
			jsonText(e.Payload)}),
	}
}

// recordOf keeps a Record on the condition of its ToolCall.
func recordOf(m store.RecordOf) Statement {
	return Statement{
		SQL: `INSERT INTO records (id, session_id, turn_id, source, type, at_seq, ts, payload)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE EXISTS (SELECT 1 FROM tool_calls c WHERE c.tool_call_id = $9
			AND ($10 = '' OR c.status = $10) AND ($11 = 0 OR c.running_at = $11 OR c.ended_at = $11))`,
		Args: append(InsertRecord(m.Record).Args, clean([]any{m.ToolCallID, string(m.Status), millis(m.At)})...),
		CAS:  true,
	}
}
