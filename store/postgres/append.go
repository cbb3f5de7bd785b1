package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

const insertEvents = `INSERT INTO events (session_id, last_seq, n, ts, data)
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::bytea[])`

// fencedInsertEvents is insertEvents that also asks whether the writer may still write,
// and holds that answer true until it is committed, all in one statement.
const fencedInsertEvents = `WITH f AS (SELECT 1 FROM replicas WHERE id = $6 AND NOT fenced FOR SHARE) ` +
	insertEvents + ` WHERE EXISTS (SELECT 1 FROM f)`

const insertRecords = `INSERT INTO records (id, session_id, turn_id, source, type, at_seq, ts, payload)
	SELECT id, session_id, turn_id, source, type, at_seq, ts, payload::json
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[])
	AS e (id, session_id, turn_id, source, type, at_seq, ts, payload)`

func appendOnly(ctx context.Context, conn *pgx.Conn, b *store.Batch) error {
	tag, err := conn.Exec(ctx, fencedInsertEvents, append(eventArgs(b.Events), b.Replica)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("%w: %s", store.ErrFenced, b.Replica)
	}
	return err
}

func eventArgs(rows []store.EventRow) []any {
	var (
		sessions = make([]string, len(rows))
		seqs     = make([]int64, len(rows))
		counts   = make([]int32, len(rows))
		times    = make([]int64, len(rows))
		data     = make([][]byte, len(rows))
	)
	for i, e := range rows {
		sessions[i], seqs[i], counts[i], data[i] = e.SessionID, e.LastSeq, int32(e.N), e.Data
		times[i] = sqldb.Millis(e.TS)
	}
	return []any{sessions, seqs, counts, times, data}
}

// recordArgs turns the arguments of one INSERT each into one array a column.
func recordArgs(records []store.Record) []any {
	var (
		texts    [5][]string
		seqs     = make([]int64, len(records))
		times    = make([]int64, len(records))
		payloads = make([]*string, len(records))
	)
	for i, e := range records {
		for c, s := range []string{e.ID, e.SessionID, e.TurnID, string(e.Source), e.Type} {
			texts[c] = append(texts[c], sqldb.Text(s))
		}
		seqs[i], times[i] = e.AtSeq, sqldb.Millis(e.TS)
		if len(e.Payload) > 0 {
			p := sqldb.Text(string(e.Payload))
			payloads[i] = &p
		}
	}
	return []any{texts[0], texts[1], texts[2], texts[3], texts[4], seqs, times, payloads}
}
