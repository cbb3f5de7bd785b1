package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Reads of Turns. At most one of a Session runs or is paused; others are queued.
	turnReader struct{ *conn }

	// A Turn begins with its request; all later moves are the owner's, in Batches.
	turnTx struct{ *conn }
)

const (
	turnColumns = `t.turn_id, t.session_id, t.root_agent_id, t.status, t.input, t.token_hash, t.usage,
	t.error_code, t.error_message, t.created_at, t.started_at, t.dispatched_at, t.ended_at, t.roles, t.upstream,
	t.branched_from, t.traced, t.traceparent, t.tracestate, t.prompted_by, t.resumable`
	selectTurn = `SELECT ` + turnColumns + ` FROM turns t JOIN sessions s ON s.session_id = t.session_id`
)

// turnInto are the destinations of turnColumns, which selectAgenda reads beside those of other tables. They, the columns
// and the inserted ones are three lists by hand; a new column stands at the same place in the first two.
func turnInto(t *store.Turn) []any {
	return []any{
		&t.ID, &t.SessionID, &t.AgentID, &t.Status, &t.Input, &t.TokenHash, &t.Usage, &t.ErrorCode, &t.ErrorMessage,
		timeInto{&t.CreatedAt}, timeInto{&t.StartedAt}, timeInto{&t.DispatchedAt}, timeInto{&t.EndedAt}, &t.Roles, &t.Upstream,
		&t.BranchedFrom, &t.Traced, &t.Traceparent, &t.Tracestate, &t.PromptedBy, &t.Resumable,
	}
}

func scanTurn(at row) (store.Turn, error) {
	var t store.Turn
	err := at.Scan(turnInto(&t)...)
	if len(t.TokenHash) == 0 {
		t.TokenHash = nil // cleared: stored empty, because NULL in a move means "keep"
	}
	return t, err
}

// Turn implements store.TurnReader.
func (r *turnReader) Turn(ctx context.Context, in store.Scope, id string) (store.Turn, error) {
	q := selecting(selectTurn, in).and("t.turn_id = ", id)
	return one(ctx, r.conn, scanTurn, q.sql.String(), q.args...)
}

// ActiveTurn implements store.TurnReader.
func (r *turnReader) ActiveTurn(ctx context.Context, in store.Scope, sessionID string) (store.Turn, error) {
	q := selecting(selectTurn, in).and("t.session_id = ", sessionID)
	q.raw(` AND t.status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')
		ORDER BY t.status = 'QUEUED', t.turn_id LIMIT 1`)
	return one(ctx, r.conn, scanTurn, q.sql.String(), q.args...)
}

// ChildTurns implements store.TurnReader. Children lie in Sessions of their own, which name the root; a Session of a
// person names none. The order is by an expression: SQLite would serve it by a walk of all Turns by their key.
func (r *turnReader) ChildTurns(ctx context.Context, in store.Scope, rootTurnID string) ([]store.ChildTurn, error) {
	q := selecting("SELECT "+turnColumns+", s.parent_turn_id FROM turns t JOIN sessions s ON s.session_id = t.session_id", in)
	q.and("s.root_turn_id = ", rootTurnID).raw(" AND s.root_turn_id <> '' ORDER BY t.turn_id || ''").limit(store.MaxChildTurns)
	return list(ctx, r.conn, scanning(func(t *store.ChildTurn) []any {
		return append(turnInto(&t.Turn), &t.ParentTurnID)
	}), q.sql.String(), q.args...)
}

// CountActiveTurns implements store.TurnReader. The longer list of states is that of the partial index.
func (r *turnReader) CountActiveTurns(ctx context.Context, in store.Scope, most int) (int, error) {
	q := selecting("SELECT 1 FROM turns t JOIN sessions s ON s.session_id = t.session_id", in)
	q.raw(` AND t.status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')
		AND t.status NOT IN ('PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL') LIMIT `).bind(int64(most))
	return count(ctx, r.conn, q)
}

// AgentsOfSession implements store.TurnReader.
func (r *turnReader) AgentsOfSession(ctx context.Context, in store.Scope, sessionID string) ([]string, error) {
	q := selecting("SELECT DISTINCT t.root_agent_id FROM turns t JOIN sessions s ON s.session_id = t.session_id", in)
	q.and("t.session_id = ", sessionID).raw(" ORDER BY t.root_agent_id")
	return list(ctx, r.conn, scanString, q.sql.String(), q.args...)
}

// passOn is the condition of a Turn, t, of which a settled Question is still to be passed on: its result to the log,
// or the answer to the Agent. One that ended to wait is called again when nothing is open any more. A server tool has a
// result when it has ended, and is a Question only where a person was asked.
const passOn = `EXISTS (SELECT 1 FROM tool_calls q WHERE q.turn_id = t.turn_id
	AND q.status NOT IN ('WAITING_APPROVAL', 'WAITING_CLIENT')
	AND (NOT q.told AND (q.kind <> 'server_tool' OR q.status IN ('BLOCKED', 'SUCCEEDED', 'FAILED', 'TIMEOUT'))
		OR q.delivered_at = 0 AND (t.upstream NOT IN ('waits', 'lost') OR NOT EXISTS (SELECT 1 FROM tool_calls o
			WHERE o.turn_id = t.turn_id AND o.status IN ('WAITING_APPROVAL', 'WAITING_CLIENT')))
		AND (q.kind <> 'server_tool' OR EXISTS (SELECT 1 FROM approvals a WHERE a.approval_id = q.tool_call_id))))`

// StrandedTurns implements store.TurnReader. Its conditions are those of work and of waiting, negated one by one. A new
// way in which a Turn can continue needs one here, or the caretaker would end the Turn. The order is by an expression, so
// that SQLite begins with the partial index of Turns under way.
func (r *turnReader) StrandedTurns(ctx context.Context, in store.Scope, replica string, limit int) ([]store.Turn, error) {
	q := selecting(selectTurn, in).raw(` AND t.status IN ('RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL')`)
	q.and("("+free+" OR s.owner = ", replica).raw(`)
		AND NOT EXISTS (SELECT 1 FROM runs x WHERE x.session_id = t.session_id AND x.status IN ('RESERVED', 'RUNNING'))
		AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.session_id = t.session_id AND c.done_at = 0)
		AND NOT EXISTS (SELECT 1 FROM tool_calls o WHERE o.session_id = t.session_id
			AND o.status IN ('WAITING_APPROVAL', 'WAITING_CLIENT'))
		AND NOT ` + passOn + ` ORDER BY t.turn_id || ''`).limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanTurn, q.sql.String(), q.args...)
}

// InsertTurn implements store.TurnTx.
func (t *turnTx) InsertTurn(ctx context.Context, turn store.Turn) error {
	return t.insert(ctx, `INSERT INTO turns (turn_id, session_id, root_agent_id, status, input, token_hash, usage,
		error_code, error_message, created_at, started_at, dispatched_at, ended_at, roles, upstream,
		branched_from, traced, traceparent, tracestate, prompted_by, resumable) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		turn.ID, turn.SessionID, turn.AgentID, string(turn.Status), jsonText(turn.Input), blob(turn.TokenHash),
		jsonText(turn.Usage), turn.ErrorCode, turn.ErrorMessage, millis(turn.CreatedAt), millis(turn.StartedAt),
		millis(turn.DispatchedAt), millis(turn.EndedAt), jsonText(turn.Roles), turn.Upstream, turn.BranchedFrom,
		turn.Traced, turn.Traceparent, turn.Tracestate, turn.PromptedBy, turn.Resumable)
}

// turnMoves make a TurnMove. Upstream is a text with a third case: "-" (store.UpstreamNone) clears it.
var turnMoves = newUpdate("turns", "",
	machineOf("TurnMove", store.AllTurnStatuses(),
		func(m *store.TurnMove) []store.TurnStatus { return m.From }, func(m *store.TurnMove) store.TurnStatus { return m.To }),
	textField("turn_id", unset, func(m *store.TurnMove) string { return m.ID }),
	textField("status", keepIfText, func(m *store.TurnMove) string { return string(m.To) }),
	timeField("started_at", keepIfZero, func(m *store.TurnMove) time.Time { return m.StartedAt }),
	timeField("dispatched_at", keepIfZero, func(m *store.TurnMove) time.Time { return m.DispatchedAt }),
	timeField("ended_at", keepIfZero, func(m *store.TurnMove) time.Time { return m.EndedAt }),
	blobField("token_hash", keepIfNull, func(m *store.TurnMove) []byte { return m.TokenHash }),
	jsonField("usage", keepIfNull, func(m *store.TurnMove) []byte { return m.Usage }),
	textField("error_code", keepIfText, func(m *store.TurnMove) string { return m.ErrorCode }),
	textField("error_message", keepIfText, func(m *store.TurnMove) string { return m.ErrorMessage }),
	textField("upstream", "CASE {new} WHEN '' THEN {old} WHEN '-' THEN '' ELSE {new} END",
		func(m *store.TurnMove) string { return m.Upstream }),
	flagField("resumable", either, func(m *store.TurnMove) bool { return m.Resumable }),
)
