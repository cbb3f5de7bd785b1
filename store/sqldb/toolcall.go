package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Reads of ToolCalls: of a Turn, those that wait, those whose executor is gone.
	toolCallReader struct{ *conn }

	// A ToolCall moves along its machine only: MoveToolCall is a compare-and-set on the states that may come
	// before.
	toolCallTx struct{ *conn }
)

const selectToolCall = `SELECT c.tool_call_id, c.session_id, c.turn_id, c.run_id, c.tool_name, c.kind, c.status, c.args,
	c.args_sha256, c.edited, c.result, c.error_code, c.error, c.upstream_id, c.idempotency_key, c.risk, c.grant_id,
	c.on_failure, c.timeout_ms, c.replica, c.running_at, c.told, c.carded, c.created_at, c.expires_at, c.ended_at, c.delivered_at, c.event
	FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id`

// waiting is the condition of a ToolCall that a person or a client has to answer. It is that of the partial index
// tool_calls_open, word for word, and a part of that of tool_calls_expiring.
const waiting = "status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')"

func scanToolCall(at row) (store.ToolCall, error) {
	var c store.ToolCall
	err := at.Scan(&c.ID, &c.SessionID, &c.TurnID, &c.RunID, &c.Name, &c.Kind, &c.Status, &c.Args,
		&c.ArgsSHA256, &c.Edited, &c.Result, &c.ErrorCode, &c.Error, &c.UpstreamID, &c.IdempotencyKey, &c.Risk, &c.GrantID,
		&c.OnFailure, spanInto{&c.Timeout}, &c.Replica, timeInto{&c.RunningAt}, &c.InTranscript, &c.Carded, timeInto{&c.CreatedAt}, timeInto{&c.ExpiresAt},
		timeInto{&c.EndedAt}, timeInto{&c.DeliveredAt}, &c.Event)
	return c, err
}

// ToolCall implements store.ToolCallReader.
func (r *toolCallReader) ToolCall(ctx context.Context, in store.Scope, id string) (store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.tool_call_id = ", id)
	return one(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// OpenToolCalls implements store.ToolCallReader.
func (r *toolCallReader) OpenToolCalls(ctx context.Context, in store.Scope, sessionID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.session_id = ", sessionID)
	q.raw(" AND c." + waiting + " ORDER BY c.created_at, c.tool_call_id")
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// OpenToolCallsUnder implements store.ToolCallReader. That the root is not empty is repeated as a constant, for the
// partial index sessions_root_turn.
func (r *toolCallReader) OpenToolCallsUnder(ctx context.Context, in store.Scope, rootTurnID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("s.root_turn_id = ", rootTurnID)
	q.raw(" AND s.root_turn_id <> '' AND c." + waiting + " ORDER BY c.created_at, c.tool_call_id")
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// ExpiringToolCalls implements store.ToolCallReader. Its order is that of the index tool_calls_expiring, so only the
// first rows are read, however much waits.
func (r *toolCallReader) ExpiringToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in)
	q.raw(" AND c." + waiting + " AND c.expires_at > 0 ORDER BY c.expires_at, c.tool_call_id")
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// CountWaiting implements store.ToolCallReader. Without a Turn it walks the partial index of what
// waits, as ExpiringToolCalls does.
func (r *toolCallReader) CountWaiting(ctx context.Context, in store.Scope, turnID string, most int) (int, error) {
	q := selecting("SELECT 1 FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id", in)
	if turnID != "" {
		q.and("c.turn_id = ", turnID)
	}
	q.raw(" AND c." + waiting + " LIMIT ").bind(int64(most))
	return count(ctx, r.conn, q)
}

// ToolCallsOfTurn implements store.ToolCallReader.
func (r *toolCallReader) ToolCallsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.turn_id = ", turnID).raw(" ORDER BY c.created_at, c.tool_call_id")
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// CountToolCalls implements store.ToolCallReader. The status stands before what may be large in a row, so SQLite reads no page
// of that.
func (r *toolCallReader) CountToolCalls(ctx context.Context, in store.Scope, turnID string) (all, open int, err error) {
	q := selecting("SELECT c.status FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id", in).and("c.turn_id = ", turnID)
	err = each(ctx, r.conn, q.sql.String(), q.args, func() { all, open = 0, 0 }, func(at row) (bool, error) {
		var status store.ToolCallStatus
		if err := at.Scan(&status); err != nil {
			return false, err
		}
		if all++; !status.Terminal() {
			open++
		}
		return true, nil
	})
	return all, open, err
}

// ToolCallByKey implements store.ToolCallReader.
func (r *toolCallReader) ToolCallByKey(ctx context.Context, in store.Scope, turnID, key string) (store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.turn_id = ", turnID).and("c.idempotency_key = ", key)
	// For the partial index tool_calls_key.
	q.raw(" AND c.idempotency_key <> ''")
	return one(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// underWay is the condition of the partial index of what a replica may have to do (tool_calls_work). Queries name it
// beside their own, narrower one: a planner uses a partial index only where the condition implies the index's.
const underWay = ` AND c.kind <> 'question' AND c.status IN ('CREATED', 'POLICY_CHECKED', 'WAITING_APPROVAL', 'DISPATCHED',
	'RUNNING', 'WAITING_CLIENT', 'UNKNOWN')`

// ToolCallsByStatus implements store.ToolCallReader. The list of states is padded to their number, so that every set
// of them is one prepared statement.
func (r *toolCallReader) ToolCallsByStatus(ctx context.Context, in store.Scope, statuses []store.ToolCallStatus, kind store.ToolCallKind, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).raw(underWay + " AND c.status IN (")
	for i, status := range padded(statuses, store.AllToolCallStatuses()) {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(status)
	}
	q.raw(")")
	if kind != "" {
		q.and("c.kind = ", string(kind))
	}
	q.raw(" ORDER BY c.tool_call_id").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// AbandonedToolCalls implements store.ToolCallReader.
func (r *toolCallReader) AbandonedToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).raw(underWay + ` AND c.status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')
		AND EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = c.turn_id AND t.status IN ('DONE', 'FAILED', 'CANCELLED'))
		ORDER BY c.tool_call_id`)
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// OrphanedToolCalls implements store.ToolCallReader. A replica that is not listed counts as dead, as one that is fenced.
func (r *toolCallReader) OrphanedToolCalls(ctx context.Context, in store.Scope, replica string, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).raw(underWay + ` AND c.status = 'RUNNING' AND c.kind = 'server_tool' AND (c.replica = `)
	q.bind(replica)
	q.raw(` OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = c.replica AND NOT r.fenced)) ORDER BY c.tool_call_id`)
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanToolCall, q.sql.String(), q.args...)
}

// InsertToolCall implements store.ToolCallTx.
func (t *toolCallTx) InsertToolCall(ctx context.Context, c store.ToolCall) error {
	s := toolCallInserts.statement(&store.InsertToolCall{ToolCall: c})
	return t.insert(ctx, s.SQL, s.Args...)
}

// MoveToolCall implements store.ToolCallTx.
func (t *toolCallTx) MoveToolCall(ctx context.Context, m store.ToolCallMove) (bool, error) {
	s, err := toolCallMoves.statement(&m)
	if err != nil {
		return false, err
	}
	return t.change(ctx, s.SQL, s.Args...)
}
