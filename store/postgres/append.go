package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"aqueduct/store"
	"aqueduct/store/sqldb"
)

// insertEvents takes the data of all rows as one value and cuts it there: an array of
// long values would be copied several times over on the way.
const insertEvents = `INSERT INTO events (session_id, last_seq, n, ts, data, mark)
	SELECT session_id, last_seq, n, ts, substr($8::bytea, at, size), mark
	FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::int[], $7::text[])
	AS e (session_id, last_seq, n, ts, at, size, mark)`

// fencedInsertEvents is insertEvents that also asks whether the writer may still write,
// and holds that answer true until it is committed, all in one statement.
const fencedInsertEvents = `WITH f AS (SELECT 1 FROM replicas WHERE id = $9 AND NOT fenced FOR SHARE) ` +
	insertEvents + ` WHERE EXISTS (SELECT 1 FROM f)`

const insertRecords = `INSERT INTO records (id, session_id, turn_id, source, type, at_seq, ts, payload)
	SELECT id, session_id, turn_id, source, type, at_seq, ts, payload::json
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[])
	AS e (id, session_id, turn_id, source, type, at_seq, ts, payload)`

func (c *committer) appendOnly(ctx context.Context, b *store.Batch) error {
	tag, err := c.conn.Exec(ctx, fencedInsertEvents, append(c.eventArgs(b.Events), b.Replica)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("%w: %s", store.ErrFenced, b.Replica)
	}
	return err
}

func (c *committer) eventArgs(rows []store.EventRow) []any {
	var (
		sessions = make([]string, len(rows))
		seqs     = make([]int64, len(rows))
		counts   = make([]int32, len(rows))
		times    = make([]int64, len(rows))
		places   = make([]int32, len(rows))
		sizes    = make([]int32, len(rows))
		marks    = make([]string, len(rows))
		at       = int32(1) // SQL counts from 1
	)
	for i, e := range rows {
		sessions[i], seqs[i], counts[i], times[i] = e.SessionID, e.LastSeq, int32(e.N), sqldb.Millis(e.TS)
		places[i], sizes[i] = at, int32(len(e.Data))
		marks[i] = sqldb.Text(e.Mark)
		at += sizes[i]
	}
	return []any{sessions, seqs, counts, times, places, sizes, marks, c.joined(rows)}
}

// maxKept bounds the buffer a committer keeps between Batches.
const maxKept = 1 << 20

// joined is the data of all rows in one piece, good until the next Batch.
func (c *committer) joined(rows []store.EventRow) []byte {
	if len(rows) == 1 && rows[0].Data != nil {
		return rows[0].Data
	}
	all := c.buf[:0]
	if all == nil {
		all = []byte{} // nil would be NULL
	}
	for _, e := range rows {
		all = append(all, e.Data...)
	}
	c.buf = all
	if cap(all) > maxKept {
		c.buf = nil
	}
	return all
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

// insertRecordsOf is insertRecords for Records that are kept on the condition of a ToolCall.
const insertRecordsOf = `INSERT INTO records (id, session_id, turn_id, source, type, at_seq, ts, payload)
	SELECT id, session_id, turn_id, source, type, at_seq, ts, payload::json
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[],
		$9::text[], $10::text[], $11::bigint[])
	AS e (id, session_id, turn_id, source, type, at_seq, ts, payload, call, status, since)
	WHERE EXISTS (SELECT 1 FROM tool_calls c WHERE c.tool_call_id = e.call AND (e.status = '' OR c.status = e.status)
		AND (e.since = 0 OR c.running_at = e.since OR c.ended_at = e.since)) RETURNING records.id`

// recordsOf queues the Records that depend on ToolCalls, behind the moves of those.
func (g *grouped) recordsOf(p *pgx.Batch) answer {
	var (
		records        []store.Record
		calls, in, ids []string
		since          []int64
	)
	for _, i := range g.records {
		m := g.moves[i].(store.RecordOf)
		records, ids = append(records, m.Record), append(ids, m.Record.ID)
		calls, in, since = append(calls, sqldb.Text(m.ToolCallID)), append(in, string(m.Status)), append(since, sqldb.Millis(m.At))
	}
	p.Queue(insertRecordsOf, append(recordArgs(records), calls, in, since)...)
	return answer{rows: g.records, ids: ids}
}
