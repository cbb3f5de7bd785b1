package sqldb

import (
	"context"

	"aqueduct/store"
)

const selectToolCall = `SELECT c.tool_call_id, c.session_id, c.turn_id, c.run_id, c.tool_name, c.kind, c.status, c.args,
	c.args_sha256, c.edited, c.result, c.error_code, c.error, c.upstream_id, c.idempotency_key, c.risk, c.grant_id,
	c.on_failure, c.timeout_ms, c.replica, c.running_at, c.told, c.created_at, c.expires_at, c.ended_at, c.delivered_at
	FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id`

// waiting is the condition of a ToolCall that somebody has to answer.
const waiting = "status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')"

func scanToolCall(at row) (store.ToolCall, error) {
	var c store.ToolCall
	err := at.Scan(&c.ID, &c.SessionID, &c.TurnID, &c.RunID, &c.Name, &c.Kind, &c.Status, &c.Args,
		&c.ArgsSHA256, &c.Edited, &c.Result, &c.ErrorCode, &c.Error, &c.UpstreamID, &c.IdempotencyKey, &c.Risk, &c.GrantID,
		&c.OnFailure, spanInto{&c.Timeout}, &c.Replica, timeInto{&c.RunningAt}, &c.Told, timeInto{&c.CreatedAt}, timeInto{&c.ExpiresAt},
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

// CountWaiting implements store.ToolCallReader. Without a Turn it walks the partial index of what
// waits, as ExpiringToolCalls does.
func (r *Reader) CountWaiting(ctx context.Context, in store.Scope, turnID string, most int) (int, error) {
	q := selecting("SELECT 1 FROM tool_calls c JOIN sessions s ON s.session_id = c.session_id", in)
	if turnID != "" {
		q.and("c.turn_id = ", turnID)
	}
	q.raw(" AND c." + waiting + " LIMIT ").bind(int64(most))
	return count(ctx, r, q)
}

// ToolCallsOfTurn implements store.ToolCallReader.
func (r *Reader) ToolCallsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.turn_id = ", turnID).raw(" ORDER BY c.tool_call_id")
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// ToolCallByKey implements store.ToolCallReader.
func (r *Reader) ToolCallByKey(ctx context.Context, in store.Scope, turnID, key string) (store.ToolCall, error) {
	q := selecting(selectToolCall, in).and("c.turn_id = ", turnID).and("c.idempotency_key = ", key)
	q.raw(" AND c.idempotency_key <> ''")
	return one(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// underWay is the condition of the partial index of what a replica may have to do.
const underWay = ` AND c.kind <> 'question' AND c.status IN ('CREATED', 'POLICY_CHECKED', 'WAITING_APPROVAL', 'DISPATCHED',
	'RUNNING', 'WAITING_CLIENT', 'UNKNOWN')`

// ToolCallsByStatus implements store.ToolCallReader.
func (r *Reader) ToolCallsByStatus(ctx context.Context, in store.Scope, statuses []store.ToolCallStatus, kind store.ToolCallKind, limit int) ([]store.ToolCall, error) {
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
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// AbandonedToolCalls implements store.ToolCallReader.
func (r *Reader) AbandonedToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).raw(underWay + ` AND c.status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')
		AND EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = c.turn_id AND t.status IN ('DONE', 'FAILED', 'CANCELLED'))
		ORDER BY c.tool_call_id`)
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// OrphanedToolCalls implements store.ToolCallReader.
func (r *Reader) OrphanedToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	q := selecting(selectToolCall, in).raw(underWay + ` AND c.status = 'RUNNING' AND c.kind = 'server_tool'
		AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = c.replica AND NOT r.fenced) ORDER BY c.tool_call_id`)
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanToolCall, q.sql.String(), q.args...)
}

// InsertToolCall implements store.ToolCallTx.
func (t *Tx) InsertToolCall(ctx context.Context, c store.ToolCall) error {
	s := insertToolCall(c)
	return t.insert(ctx, s.SQL, s.Args...)
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

const (
	intoToolCalls = `INSERT INTO tool_calls (tool_call_id, session_id, turn_id, run_id, tool_name, kind, status, args, result,
	error_code, upstream_id, told, created_at, expires_at, ended_at, delivered_at, args_sha256, edited, error,
	idempotency_key, risk, grant_id, on_failure, timeout_ms, replica, running_at) `
	toolCallValues = `$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
	$23, $24, $25, $26`
)

func toolCallArgs(c store.ToolCall) []any {
	return []any{c.ID, c.SessionID, c.TurnID, c.RunID, c.Name, string(c.Kind), string(c.Status), jsonText(c.Args),
		jsonText(c.Result), c.ErrorCode, c.UpstreamID, c.Told, millis(c.CreatedAt), millis(c.ExpiresAt),
		millis(c.EndedAt), millis(c.DeliveredAt), c.ArgsSHA256, c.Edited, jsonText(c.Error), c.IdempotencyKey, c.Risk,
		c.GrantID, string(c.OnFailure), c.Timeout.Milliseconds(), c.Replica, millis(c.RunningAt)}
}

func insertToolCall(c store.ToolCall) Statement {
	return Statement{SQL: intoToolCalls + "VALUES (" + toolCallValues + ")", Args: toolCallArgs(c)}
}

func takeToolCall(c store.ToolCall) Statement {
	return Statement{
		SQL: intoToolCalls + "SELECT " + toolCallValues + ` WHERE EXISTS (SELECT 1 FROM turns WHERE turn_id = $27
			AND status NOT IN ('DONE', 'FAILED', 'CANCELLED')) ON CONFLICT DO NOTHING`,
		Args: append(toolCallArgs(c), c.TurnID),
		CAS:  true,
	}
}

func toolCallMove(m store.ToolCallMove) (Statement, error) {
	from := only(m.From)
	if err := legal("ToolCallMove", from, m.To); err != nil {
		return Statement{}, err
	}
	// Another attempt, or a success, has nothing of an earlier one's error.
	afresh := m.To == store.ToolDispatched || m.To == store.ToolSucceeded
	return Statement{
		SQL: `UPDATE tool_calls SET status = COALESCE(NULLIF($2, ''), status),
			run_id = COALESCE(NULLIF($3, ''), run_id), result = COALESCE($4, result),
			error_code = CASE WHEN $5 THEN $6 ELSE COALESCE(NULLIF($6, ''), error_code) END,
			error = CASE WHEN $5 THEN $7 ELSE COALESCE($7, error) END,
			told = told OR $8, ended_at = COALESCE(NULLIF(CAST($9 AS BIGINT), 0), ended_at),
			expires_at = COALESCE(NULLIF(CAST($10 AS BIGINT), 0), expires_at),
			running_at = COALESCE(NULLIF(CAST($11 AS BIGINT), 0), running_at),
			replica = COALESCE(NULLIF($12, ''), replica), args = COALESCE($13, args), edited = edited OR $14,
			args_sha256 = COALESCE(NULLIF($15, ''), args_sha256), risk = COALESCE(NULLIF($16, ''), risk),
			grant_id = COALESCE(NULLIF($17, ''), grant_id)
			WHERE tool_call_id = $1 AND ($18 = '' OR replica = $18)
			AND (NOT CAST($19 AS BOOLEAN) OR EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = tool_calls.turn_id
				AND t.status NOT IN ('DONE', 'FAILED', 'CANCELLED')))
			AND status IN ($20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)`,
		Args: append([]any{m.ID, string(m.To), m.RunID, jsonText(m.Result), afresh, m.ErrorCode, jsonText(m.Error), m.Told,
			millis(m.EndedAt), millis(m.ExpiresAt), millis(m.RunningAt), m.Replica, jsonText(m.Args), len(m.Args) > 0,
			m.ArgsSHA256, m.Risk, m.GrantID, m.OnlyOf, m.WhileTurn}, padded(from, store.AllToolCallStatuses())...),
		CAS: true,
	}, nil
}

func toolCallShown(m store.ToolCallShown) Statement {
	s := Statement{SQL: "UPDATE tool_calls SET run_id = $2 WHERE tool_call_id = $1", Args: []any{m.ID, m.RunID}}
	if !m.Anyway {
		s.SQL, s.CAS = s.SQL+" AND "+waiting, true
	}
	return s
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
		SQL:  "UPDATE tool_calls SET delivered_at = $2 WHERE tool_call_id = $1 AND delivered_at = 0 AND ($3 = '' OR status = $3)",
		Args: []any{m.ID, millis(m.At), string(m.While)},
		CAS:  true,
	}
}
