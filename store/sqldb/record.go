package sqldb

import (
	"context"

	"aqueduct/store"
)

const selectRecord = `SELECT e.id, e.session_id, e.turn_id, e.source, e.type, e.at_seq, e.ts, e.payload
	FROM records e JOIN sessions s ON s.session_id = e.session_id`

func scanRecord(at row) (store.Record, error) {
	var e store.Record
	err := at.Scan(&e.ID, &e.SessionID, &e.TurnID, &e.Source, &e.Type, &e.AtSeq, timeInto{&e.TS}, &e.Payload)
	return e, err
}

// RecordsOfTurn implements store.RecordReader.
func (r *Reader) RecordsOfTurn(ctx context.Context, in store.Scope, turnID string, page store.Page) ([]store.Record, error) {
	// The second condition is what lets the partial index be used.
	q := selecting(selectRecord, in).and("e.turn_id = ", turnID).raw(" AND e.turn_id <> ''").oldestFirst("e.id", page)
	return list(ctx, r, scanRecord, q.sql.String(), q.args...)
}

// RecordsOfType implements store.RecordReader.
func (r *Reader) RecordsOfType(ctx context.Context, in store.Scope, kind string, page store.Page) ([]store.Record, error) {
	q := selecting(selectRecord, in).and("e.type = ", kind).oldestFirst("e.id", page)
	return list(ctx, r, scanRecord, q.sql.String(), q.args...)
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
