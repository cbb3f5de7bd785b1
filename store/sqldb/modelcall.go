package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Calls of models. They are seen with their Session.
	modelCallReader struct{ *conn }

	// A call is written when it begins, so that one that a crash cut off is on record, and once more at its end.
	modelCallTx struct{ *conn }
)

const selectModelCall = `SELECT m.call_id, m.session_id, m.turn_id, m.agent_id, m.route, m.model, m.upstream, m.status, m.code, m.replica,
	m.input_tokens, m.cached_tokens, m.output_tokens, m.reasoning_tokens, m.estimated, m.cost, m.started_at,
	m.first_token_at, m.ended_at FROM model_calls m JOIN sessions s ON s.session_id = m.session_id`

func scanModelCall(at row) (store.ModelCall, error) {
	var c store.ModelCall
	err := at.Scan(&c.ID, &c.SessionID, &c.TurnID, &c.AgentID, &c.Route, &c.Model, &c.Upstream, &c.Status, &c.Code, &c.Replica,
		&c.Tokens.Input, &c.Tokens.Cached, &c.Tokens.Output, &c.Tokens.Reasoning, &c.Tokens.Estimated, &c.Cost,
		timeInto{&c.StartedAt}, timeInto{&c.FirstTokenAt}, timeInto{&c.EndedAt})
	return c, err
}

// ModelCall implements store.ModelCallReader.
func (r *modelCallReader) ModelCall(ctx context.Context, in store.Scope, id string) (store.ModelCall, error) {
	q := selecting(selectModelCall, in).and("m.call_id = ", id)
	return one(ctx, r.conn, scanModelCall, q.sql.String(), q.args...)
}

func scanModelUsage(at row) (store.ModelUsage, error) {
	var u store.ModelUsage
	var estimated int64
	err := at.Scan(&u.Model, &u.Upstream, &u.Tokens.Input, &u.Tokens.Cached, &u.Tokens.Output, &u.Tokens.Reasoning, &estimated, &u.Cost)
	u.Tokens.Estimated = estimated > 0
	return u, err
}

// UsageOfTurn implements store.ModelCallReader. It sums calls that have ended; SUM of a BIGINT is a NUMERIC in
// PostgreSQL, hence the casts.
func (r *modelCallReader) UsageOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ModelUsage, error) {
	sum := func(column string) string { return "CAST(SUM(m." + column + ") AS BIGINT)" }
	q := selecting("SELECT m.model, m.upstream, "+sum("input_tokens")+", "+sum("cached_tokens")+", "+sum("output_tokens")+", "+sum("reasoning_tokens")+
		", CAST(MAX(CASE WHEN m.estimated THEN 1 ELSE 0 END) AS BIGINT), "+sum("cost")+
		" FROM model_calls m JOIN sessions s ON s.session_id = m.session_id", in).and("m.turn_id = ", turnID)
	q.raw(" AND m.ended_at > 0 GROUP BY m.model, m.upstream ORDER BY m.model, m.upstream")
	return list(ctx, r.conn, scanModelUsage, q.sql.String(), q.args...)
}

// AbandonedModelCalls implements store.ModelCallReader. Those of before replicas were noted are left out.
func (r *modelCallReader) AbandonedModelCalls(ctx context.Context, in store.Scope, limit int) ([]store.ModelCall, error) {
	q := selecting(selectModelCall, in).raw(` AND m.status = 'OPEN' AND m.replica <> ''
		AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = m.replica AND NOT r.fenced) ORDER BY m.call_id`)
	q.limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanModelCall, q.sql.String(), q.args...)
}

// InsertModelCall implements store.ModelCallTx. Its tokens and its cost are what the call counts with where its
// server is killed in the middle; EndModelCall replaces them.
func (t *modelCallTx) InsertModelCall(ctx context.Context, c store.ModelCall) error {
	return t.insert(ctx, `INSERT INTO model_calls (call_id, session_id, turn_id, agent_id, route, model, status, started_at, replica,
		input_tokens, output_tokens, estimated, cost) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		c.ID, c.SessionID, c.TurnID, c.AgentID, c.Route, c.Model, string(c.Status), millis(c.StartedAt), c.Replica,
		c.Tokens.Input, c.Tokens.Output, c.Tokens.Estimated, c.Cost)
}

// EndModelCall implements store.ModelCallTx. A call is ended once: by the replica that made it, or by one that finds
// it abandoned.
func (t *modelCallTx) EndModelCall(ctx context.Context, c store.ModelCall) (bool, error) {
	return t.change(ctx, `UPDATE model_calls SET upstream = $2, status = $3, code = $4, input_tokens = $5, cached_tokens = $6,
		output_tokens = $7, reasoning_tokens = $8, estimated = $9, cost = $10, first_token_at = $11, ended_at = $12
		WHERE call_id = $1 AND status = $13`,
		c.ID, c.Upstream, string(c.Status), c.Code, c.Tokens.Input, c.Tokens.Cached, c.Tokens.Output, c.Tokens.Reasoning,
		c.Tokens.Estimated, c.Cost, millis(c.FirstTokenAt), millis(c.EndedAt), string(store.ModelOpen))
}
