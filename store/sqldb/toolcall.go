package sqldb

import (
	"context"

	"aqueduct/store"
)

const selectToolCall = `SELECT c.tool_call_id, c.session_id, c.turn_id, c.run_id, c.tool_name, c.kind, c.status, c.args,
	c.result, c.error_code, c.upstream_id, c.told, c.created_at, c.expires_at, c.ended_at, c.delivered_at
	FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id`

// waiting is the condition of a ToolCall that somebody has to answer.
const waiting = "status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')"

func scanToolCall(at row) (store.ToolCall, error) {
	var c store.ToolCall
	err := at.Scan(&c.ID, &c.SessionID, &c.TurnID, &c.RunID, &c.Name, &c.Kind, &c.Status, &c.Args,
		&c.Result, &c.ErrorCode, &c.UpstreamID, &c.Told, timeInto{&c.CreatedAt}, timeInto{&c.ExpiresAt},
		timeInto{&c.EndedAt}, timeInto{&c.DeliveredAt})
	return c, err
}

// ToolCall implements store.ToolCallReader.
func (r *Reader) ToolCall(ctx context.Context, in store.Scope, id string) (store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.tool_call_id = ", id)
	return one(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// OpenToolCalls implements store.ToolCallReader.
func (r *Reader) OpenToolCalls(ctx context.Context, in store.Scope, sessionID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.session_id = ", sessionID)
	q.raw(" AND c." + waiting + " ORDER BY c.tool_call_id")
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// ExpiringToolCalls implements store.ToolCallReader.
func (r *Reader) ExpiringToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in)
	q.raw(" AND c." + waiting + " AND c.expires_at > 0 ORDER BY c.expires_at, c.tool_call_id")
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// ToolCallsOfTurn implements store.ToolCallReader.
func (r *Reader) ToolCallsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.turn_id = ", turnID).raw(" ORDER BY c.tool_call_id")
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// MoveToolCall implements store.ToolCallTx.
func (t *Tx) MoveToolCall(ctx context.Context, m store.ToolCallMove) (bool, error) {
	s, err := toolCallMove(m)
	if err != nil {
		return false, err
	}
	n, err := t.exec(ctx, s.SQL, s.Args...)
	return n > 0, err
}

func insertToolCall(c store.ToolCall) Statement {
	return Statement{
		SQL: `INSERT INTO tool_calls (tool_call_id, session_id, turn_id, run_id, tool_name, kind, status, args, result,
			error_code, upstream_id, told, created_at, expires_at, ended_at, delivered_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		Args: []any{c.ID, c.SessionID, c.TurnID, c.RunID, c.Name, string(c.Kind), string(c.Status), jsonText(c.Args),
			jsonText(c.Result), c.ErrorCode, c.UpstreamID, c.Told, millis(c.CreatedAt), millis(c.ExpiresAt),
			millis(c.EndedAt), millis(c.DeliveredAt)},
	}
}

func toolCallMove(m store.ToolCallMove) (Statement, error) {
	from := only(m.From)
	if err := legal("ToolCallMove", from, m.To); err != nil {
		return Statement{}, err
	}
	return Statement{
		SQL: `UPDATE tool_calls SET status = COALESCE(NULLIF($2, ''), status),
			run_id = COALESCE(NULLIF($3, ''), run_id), result = COALESCE($4, result),
			error_code = COALESCE(NULLIF($5, ''), error_code), told = told OR $6,
			ended_at = COALESCE(NULLIF(CAST($7 AS BIGINT), 0), ended_at)
			WHERE tool_call_id = $1
			AND status IN ($8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		Args: append([]any{m.ID, string(m.To), m.RunID, jsonText(m.Result), m.ErrorCode, m.Told, millis(m.EndedAt)},
			padded(from, store.AllToolCallStatuses())...),
		CAS: true,
	}, nil
}

func toolCallShown(m store.ToolCallShown) Statement {
	return Statement{
		SQL:  "UPDATE tool_calls SET run_id = $2 WHERE tool_call_id = $1 AND " + waiting,
		Args: []any{m.ID, m.RunID},
		CAS:  true,
	}
}

func toolCallTold(m store.ToolCallTold) Statement {
	return Statement{
		SQL:  "UPDATE tool_calls SET told = TRUE WHERE tool_call_id = $1 AND NOT told",
		Args: []any{m.ID},
		CAS:  true,
	}
}

func toolCallDelivered(m store.ToolCallDelivered) Statement {
	return Statement{
		SQL:  "UPDATE tool_calls SET delivered_at = $2 WHERE tool_call_id = $1 AND delivered_at = 0",
		Args: []any{m.ID, millis(m.At)},
		CAS:  true,
	}
}
