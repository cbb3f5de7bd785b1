package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

const selectOutbox = `SELECT o.id, o.session_id, o.kind, o.target, o.payload, o.created_at, o.next_at, o.tries, o.claimed_until, o.done_at,
	o.last_error FROM outbox o`

func scanOutbox(at row) (store.OutboxItem, error) {
	var i store.OutboxItem
	err := at.Scan(&i.ID, &i.SessionID, &i.Kind, &i.Target, &i.Payload, timeInto{&i.CreatedAt}, timeInto{&i.NextAt}, &i.Tries,
		timeInto{&i.ClaimedUntil}, timeInto{&i.DoneAt}, &i.LastError)
	return i, err
}

// OutboxDue implements store.OutboxReader.
func (r *Reader) OutboxDue(ctx context.Context, in store.Scope, now time.Time, limit int) ([]store.OutboxItem, error) {
	if !in.All() {
		return nil, nil
	}
	q := from(selectOutbox).raw(" AND o.done_at = 0").and("o.next_at <= ", millis(now))
	q.and("o.claimed_until <= ", millis(now)).raw(" ORDER BY o.next_at, o.id").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanOutbox, q.sql.String(), q.args...)
}

// InsertOutbox implements store.OutboxTx.
func (t *Tx) InsertOutbox(ctx context.Context, i store.OutboxItem) error {
	s := insertOutbox(i)
	return t.insert(ctx, s.SQL, s.Args...)
}

func insertOutbox(i store.OutboxItem) Statement {
	return Statement{
		SQL: `INSERT INTO outbox (id, session_id, kind, target, payload, created_at, next_at, tries, claimed_until, done_at,
			last_error) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		Args: []any{i.ID, i.SessionID, i.Kind, i.Target, jsonText(i.Payload), millis(i.CreatedAt), millis(i.NextAt), int64(i.Tries),
			millis(i.ClaimedUntil), millis(i.DoneAt), i.LastError},
	}
}

// ClaimOutbox implements store.OutboxTx.
func (t *Tx) ClaimOutbox(ctx context.Context, id string, now, until time.Time) (bool, error) {
	n, err := t.exec(ctx, `UPDATE outbox SET claimed_until = $3, tries = tries + 1
		WHERE id = $1 AND done_at = 0 AND next_at <= $2 AND claimed_until <= $2`, id, millis(now), millis(until))
	return n > 0, err
}

// OutboxDone implements store.OutboxTx.
func (t *Tx) OutboxDone(ctx context.Context, id string, at time.Time) error {
	_, err := t.exec(ctx, "UPDATE outbox SET done_at = $2, last_error = '' WHERE id = $1 AND done_at = 0", id, millis(at))
	return err
}

// OutboxRetry implements store.OutboxTx.
func (t *Tx) OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error {
	_, err := t.exec(ctx, "UPDATE outbox SET next_at = $2, claimed_until = 0, last_error = $3 WHERE id = $1 AND done_at = 0",
		id, millis(next), reason)
	return err
}

// DropOutbox implements store.OutboxTx. Each half walks an index of its own.
func (t *Tx) DropOutbox(ctx context.Context, before, never time.Time, limit int) (int64, error) {
	return t.exec(ctx, `DELETE FROM outbox WHERE id IN (SELECT id FROM (
			SELECT id FROM (SELECT id FROM outbox WHERE done_at > 0 AND done_at < $1 ORDER BY done_at LIMIT $3) sent
			UNION ALL
			SELECT id FROM (SELECT id FROM outbox WHERE done_at = 0 AND next_at >= $2 AND created_at < $1 ORDER BY next_at, id LIMIT $3) given_up
		) past LIMIT $3)`, millis(before), millis(never), int64(limit))
}
