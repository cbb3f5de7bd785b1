// This file is the hot path of the log: how rows of events get into PostgreSQL, and the Batch that has nothing else.

package postgres

import (
	"context"
	"fmt"

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

// appendOnly writes a Batch of nothing but events, as most are while agents stream, as the one statement of its
// transaction. It needs no number (sqldb.Number): a repetition meets its own rows. No row inserted means that the fence
// was set.
func (c *committer) appendOnly(ctx context.Context, b *store.Batch) error {
	tag, err := c.conn.Exec(ctx, fencedInsertEvents, append(c.eventArgs(b.Events), b.Replica)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("%w: %s", store.ErrFenced, b.Replica)
	}
	return err
}

// eventArgs are the arguments $1 to $8 of insertEvents: columns as arrays, and where each row's data lies in $8.
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
		marks[i] = sqldb.Text(e.Cursor)
		at += sizes[i]
	}
	return []any{sessions, seqs, counts, times, places, sizes, marks, c.joined(rows)}
}

// maxKept bounds the buffer a committer keeps between Batches.
const maxKept = 1 << 20

// joined is the data of all rows in one piece, good until the next Batch. A single row's is not copied.
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
