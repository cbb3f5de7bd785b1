package sqldb

import (
	"context"
	"slices"
	"time"

	"aqueduct/store"
)

type (
	// What is to be sent to others: notifications, webhooks, frames for channels. A row is written with what it
	// reports.
	outboxReader struct{ *conn }

	// Couriers of all replicas share the table: a claim is a lease, and what is not done when it ends is tried
	// again.
	outboxTx struct{ *conn }
)

const selectOutbox = `SELECT o.id, o.session_id, o.kind, o.target, o.payload, o.created_at, o.next_at, o.tries, o.claimed_until, o.done_at,
	o.last_error FROM outbox o`

func scanOutbox(at row) (store.OutboxItem, error) {
	var i store.OutboxItem
	err := at.Scan(&i.ID, &i.SessionID, &i.Kind, &i.Target, &i.Payload, timeInto{&i.CreatedAt}, timeInto{&i.NextAt}, &i.Tries,
		timeInto{&i.ClaimedUntil}, timeInto{&i.DoneAt}, &i.LastError)
	return i, err
}

// selectLanes goes from lane to lane by steps in the index outbox_lane, however much waits in each.
const selectLanes = `WITH RECURSIVE lanes(id, n) AS (
		SELECT (SELECT f.id FROM outbox f WHERE f.done_at = 0 AND f.kind > '' ORDER BY f.kind, f.target, f.next_at, f.id LIMIT 1), 1
		UNION ALL SELECT COALESCE(
			(SELECT t.id FROM outbox t WHERE t.done_at = 0 AND t.kind = c.kind AND t.target > c.target ORDER BY t.target, t.next_at, t.id LIMIT 1),
			(SELECT k.id FROM outbox k WHERE k.done_at = 0 AND k.kind > c.kind ORDER BY k.kind, k.target, k.next_at, k.id LIMIT 1)), l.n + 1
		FROM lanes l JOIN outbox c ON c.id = l.id WHERE l.n < $1)
	SELECT o.kind, o.target FROM lanes l JOIN outbox o ON o.id = l.id ORDER BY l.n`

// OutboxLanes implements store.OutboxReader.
func (r *outboxReader) OutboxLanes(ctx context.Context, in store.Scope, kind string) ([]store.OutboxLane, error) {
	if !in.All() {
		return nil, nil
	}
	all, err := list(ctx, r.conn, func(at row) (l store.OutboxLane, err error) { return l, at.Scan(&l.Kind, &l.Target) }, selectLanes, int64(store.MaxPageLimit))
	return slices.DeleteFunc(all, func(l store.OutboxLane) bool { return kind != "" && l.Kind != kind }), err
}

// OutboxOf implements store.OutboxReader.
func (r *outboxReader) OutboxOf(ctx context.Context, in store.Scope, sessionID string) ([]store.OutboxItem, error) {
	if !in.All() || sessionID == "" {
		return nil, nil
	}
	q := from(selectOutbox).raw(" AND o.done_at = 0").and("o.session_id = ", sessionID)
	q.raw(" ORDER BY o.created_at, o.id").limit(store.MaxPageLimit)
	return list(ctx, r.conn, scanOutbox, q.sql.String(), q.args...)
}

// OutboxDue implements store.OutboxReader.
func (r *outboxReader) OutboxDue(ctx context.Context, in store.Scope, lane store.OutboxLane, now time.Time, limit int) ([]store.OutboxItem, error) {
	if !in.All() {
		return nil, nil
	}
	q := from(selectOutbox).raw(" AND o.done_at = 0").and("o.kind = ", lane.Kind).and("o.target = ", lane.Target).and("o.next_at <= ", millis(now))
	q.and("o.claimed_until <= ", millis(now)).raw(" ORDER BY o.next_at, o.id").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanOutbox, q.sql.String(), q.args...)
}

// InsertOutbox implements store.OutboxTx.
func (t *outboxTx) InsertOutbox(ctx context.Context, i store.OutboxItem) error {
	s := insertOutbox(i)
	return t.insert(ctx, s.SQL, s.Args...)
}

// insertOutbox is the statement of InsertOutbox and of the Move of that name.
func insertOutbox(i store.OutboxItem) Statement {
	return Statement{
		SQL: `INSERT INTO outbox (id, session_id, kind, target, payload, created_at, next_at, tries, claimed_until, done_at,
			last_error) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		Args: []any{i.ID, i.SessionID, i.Kind, i.Target, jsonText(i.Payload), millis(i.CreatedAt), millis(i.NextAt), int64(i.Tries),
			millis(i.ClaimedUntil), millis(i.DoneAt), i.LastError},
	}
}

// ClaimOutbox implements store.OutboxTx. The conditions of OutboxDue are checked once more: several replicas list the
// same items, and one of them gets each.
func (t *outboxTx) ClaimOutbox(ctx context.Context, i store.OutboxItem, now, until time.Time) (bool, error) {
	return t.change(ctx, `UPDATE outbox SET claimed_until = $3, tries = tries + 1
		WHERE id = $1 AND done_at = 0 AND next_at <= $2 AND claimed_until <= $2 AND tries = $4`, i.ID, millis(now), millis(until), int64(i.Tries))
}

// OutboxDone implements store.OutboxTx.
func (t *outboxTx) OutboxDone(ctx context.Context, id string, at time.Time) error {
	return t.run(ctx, "UPDATE outbox SET done_at = $2, last_error = '' WHERE id = $1 AND done_at = 0", id, millis(at))
}

// OutboxRetry implements store.OutboxTx. An item that is given up is one whose next try is far in the future.
func (t *outboxTx) OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error {
	return t.run(ctx, "UPDATE outbox SET next_at = $2, claimed_until = 0, last_error = $3 WHERE id = $1 AND done_at = 0",
		id, millis(next), reason)
}

// DropOutbox implements store.OutboxTx. Each half walks an index of its own, which one condition with OR could not, and
// stops at the limit, so that a sweep of many rows is many short transactions.
func (t *outboxTx) DropOutbox(ctx context.Context, before, never time.Time, limit int) (int64, error) {
	return t.exec(ctx, `DELETE FROM outbox WHERE id IN (SELECT id FROM (
			SELECT id FROM (SELECT id FROM outbox WHERE done_at > 0 AND done_at < $1 ORDER BY done_at LIMIT $3) sent
			UNION ALL
			SELECT id FROM (SELECT id FROM outbox WHERE done_at = 0 AND next_at >= $2 AND created_at < $1 ORDER BY next_at, id LIMIT $3) given_up
		) past LIMIT $3)`, millis(before), millis(never), int64(limit))
}
