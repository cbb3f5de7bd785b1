package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Records are what happened beside the chat's events: calls, decisions, moves of Turns. They make up the
	// trace.
	recordReader struct{ *conn }

	// A Record of a request gets its position afterwards (SequenceRecords): numbers given before the commit would
	// leave holes that a reader has passed already.
	recordTx struct{ *conn }
)

const (
	recordColumns = `e.id, e.session_id, e.turn_id, e.source, e.type, e.at_seq, e.ts, e.payload`
	fromRecords   = ` FROM records e JOIN sessions s ON s.session_id = e.session_id`
	selectRecord  = `SELECT ` + recordColumns + fromRecords
	selectPlaced  = `SELECT ` + recordColumns + `, e.pos` + fromRecords
)

func recordInto(e *store.Record) []any {
	return []any{&e.ID, &e.SessionID, &e.TurnID, &e.Source, &e.Type, &e.AtSeq, timeInto{&e.TS}, &e.Payload}
}

var scanRecord = scanning(recordInto)

func scanPlaced(at row) (store.PlacedRecord, error) {
	var e store.PlacedRecord
	err := at.Scan(append(recordInto(&e.Record), &e.Pos)...)
	return e, err
}

// RecordsOfTurn implements store.RecordReader. The index on turn_id is led on by pos, so the id is written such that no
// index serves the order: before the first ANALYZE PostgreSQL walks the whole primary key for it.
func (r *recordReader) RecordsOfTurn(ctx context.Context, in store.Scope, turnID string, page store.Page) ([]store.Record, error) {
	q := selecting(selectRecord, in).and("e.turn_id = ", turnID).raw(ofSomeTurn).oldestFirst("(e.id || '')", page)
	return list(ctx, r.conn, scanRecord, q.sql.String(), q.args...)
}

// RecordsOfType implements store.RecordReader.
func (r *recordReader) RecordsOfType(ctx context.Context, in store.Scope, kind string, page store.Page) ([]store.Record, error) {
	q := selecting(selectRecord, in).and("e.type = ", kind).oldestFirst("e.id", page)
	return list(ctx, r.conn, scanRecord, q.sql.String(), q.args...)
}

// RecordsOfSession implements store.RecordReader.
func (r *recordReader) RecordsOfSession(ctx context.Context, in store.Scope, sessionID string, after int64, limit int) ([]store.PlacedRecord, error) {
	q := selecting(selectPlaced, in).and("e.session_id = ", sessionID).and("e.pos > ", after)
	q.raw(" ORDER BY e.pos").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanPlaced, q.sql.String(), q.args...)
}

// PlacedRecordsOfTurn implements store.RecordReader.
func (r *recordReader) PlacedRecordsOfTurn(ctx context.Context, in store.Scope, turnID string, after int64, limit int) ([]store.PlacedRecord, error) {
	q := selecting(selectPlaced, in).and("e.turn_id = ", turnID).raw(ofSomeTurn).and("e.pos > ", after)
	q.raw(" ORDER BY e.pos").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanPlaced, q.sql.String(), q.args...)
}

// ofSomeTurn lets the partial index on turn_id be used.
const ofSomeTurn = " AND e.turn_id <> ''"

// RecordsUnsequenced implements store.RecordReader.
func (r *recordReader) RecordsUnsequenced(ctx context.Context, in store.Scope, sessionID, turnID string) (bool, error) {
	q := selecting("SELECT e.id"+fromRecords, in)
	if turnID != "" {
		q.and("e.turn_id = ", turnID).raw(ofSomeTurn)
	} else {
		q.and("e.session_id = ", sessionID)
	}
	q.raw(" AND e.pos = 0 LIMIT 1")
	got, err := list(ctx, r.conn, scanString, q.sql.String(), q.args...)
	return len(got) > 0, err
}

// SequenceRecords implements store.RecordTx. The Session's lock, which the caller holds, keeps two that sequence from
// giving the same positions. By id: the index on (session_id, pos, id) then finds the oldest ones without reading what
// was written since.
func (t *recordTx) SequenceRecords(ctx context.Context, sessionID string, limit int) (int64, error) {
	last, err := one(ctx, t.conn, scanInt, "SELECT COALESCE(MAX(pos), 0) FROM records WHERE session_id = $1", sessionID)
	if err != nil {
		return 0, err
	}
	return t.exec(ctx, `UPDATE records SET pos = CAST($2 AS BIGINT) + n.place FROM (
		SELECT e.id, ROW_NUMBER() OVER (ORDER BY e.id) AS place FROM (
			SELECT id FROM records WHERE session_id = $1 AND pos = 0 ORDER BY id LIMIT $3) e) n
		WHERE records.id = n.id`, sessionID, last, int64(store.Page{Limit: limit}.Size()))
}

// InsertRecord implements store.RecordTx.
func (t *recordTx) InsertRecord(ctx context.Context, e store.Record) error {
	s := insertRecord(e)
	return t.insert(ctx, s.SQL, s.Args...)
}

// recordFields are the columns of a Record, whether or not it depends on a ToolCall.
func recordFields() []field[*store.RecordOf] {
	return []field[*store.RecordOf]{
		textField("id", replace, func(m *store.RecordOf) string { return m.Record.ID }),
		textField("session_id", replace, func(m *store.RecordOf) string { return m.Record.SessionID }),
		textField("turn_id", replace, func(m *store.RecordOf) string { return m.Record.TurnID }),
		textField("source", replace, func(m *store.RecordOf) string { return string(m.Record.Source) }),
		textField("type", replace, func(m *store.RecordOf) string { return m.Record.Type }),
		numberField("at_seq", replace, func(m *store.RecordOf) int64 { return m.Record.AtSeq }),
		timeField("ts", replace, func(m *store.RecordOf) time.Time { return m.Record.TS }),
		jsonField("payload", replace, func(m *store.RecordOf) []byte { return m.Record.Payload }),
	}
}

// records keep a Record; recordsOf keep one on the condition of its ToolCall.
var (
	records   = newInsert("records", "", recordFields()...)
	recordsOf = newInsert("records", ` WHERE EXISTS (SELECT 1 FROM tool_calls c WHERE c.tool_call_id = {call}
		AND ({call_status} = '' OR c.status = {call_status})
		AND ({since} = 0 OR c.running_at = {since} OR c.ended_at = {since}))`, append(recordFields(),
		textField("call", unset, func(m *store.RecordOf) string { return m.ToolCallID }),
		textField("call_status", unset, func(m *store.RecordOf) string { return string(m.Status) }),
		timeField("since", unset, func(m *store.RecordOf) time.Time { return m.At }),
	)...)
)

// insertRecord is the statement that keeps a Record.
func insertRecord(r store.Record) Statement { return records.statement(&store.RecordOf{Record: r}) }

// InsertRecords is the statement that keeps many Records.
func InsertRecords(all []store.Record) Statement {
	rows := make([]*store.RecordOf, len(all))
	for i, r := range all {
		rows[i] = &store.RecordOf{Record: r}
	}
	return records.grouped(rows)
}
