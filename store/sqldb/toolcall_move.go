// This file has the Moves of ToolCalls as fields. The column of InTranscript has an older name.

package sqldb

import (
	"time"

	"aqueduct/store"
)

// toolCallMoves make a ToolCallMove. A move that starts another attempt, or a success, has
// nothing of an earlier attempt's error; a person's arguments mark the row as edited.
var toolCallMoves = newUpdate("tool_calls", `({only_of} = '' OR x.replica = {only_of})
	AND (NOT {while_turn} OR EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = x.turn_id
		AND t.status NOT IN ('DONE', 'FAILED', 'CANCELLED')))`,
	machineOf("ToolCallMove", store.AllToolCallStatuses(),
		func(m *store.ToolCallMove) []store.ToolCallStatus { return only(m.From) },
		func(m *store.ToolCallMove) store.ToolCallStatus { return m.To }),
	textField("tool_call_id", unset, func(m *store.ToolCallMove) string { return m.ID }),
	textField("status", keepIfText, func(m *store.ToolCallMove) string { return string(m.To) }),
	textField("run_id", keepIfText, func(m *store.ToolCallMove) string { return m.RunID }),
	jsonField("result", keepIfNull, func(m *store.ToolCallMove) []byte { return m.Result }),
	flagField("afresh", unset, func(m *store.ToolCallMove) bool {
		return m.To == store.ToolDispatched || m.To == store.ToolSucceeded
	}),
	textField("error_code", "CASE WHEN {afresh} THEN {new} ELSE "+keepIfText+" END",
		func(m *store.ToolCallMove) string { return m.ErrorCode }),
	jsonField("error", "CASE WHEN {afresh} THEN {new} ELSE "+keepIfNull+" END",
		func(m *store.ToolCallMove) []byte { return m.Error }),
	flagField("told", either, func(m *store.ToolCallMove) bool { return m.InTranscript }),
	flagField("carded", "{old} AND NOT {new}", func(m *store.ToolCallMove) bool { return m.CardAnswered }),
	timeField("ended_at", keepIfZero, func(m *store.ToolCallMove) time.Time { return m.EndedAt }),
	timeField("expires_at", keepIfZero, func(m *store.ToolCallMove) time.Time { return m.ExpiresAt }),
	timeField("running_at", keepIfZero, func(m *store.ToolCallMove) time.Time { return m.RunningAt }),
	textField("replica", keepIfText, func(m *store.ToolCallMove) string { return m.Replica }),
	jsonField("args", keepIfNull, func(m *store.ToolCallMove) []byte { return m.Args }),
	flagField("edited", either, func(m *store.ToolCallMove) bool { return len(m.Args) > 0 }),
	textField("args_sha256", keepIfText, func(m *store.ToolCallMove) string { return m.ArgsSHA256 }),
	textField("risk", keepIfText, func(m *store.ToolCallMove) string { return m.Risk }),
	textField("grant_id", keepIfText, func(m *store.ToolCallMove) string { return m.GrantID }),
	textField("only_of", unset, func(m *store.ToolCallMove) string { return m.OnlyOf }),
	flagField("while_turn", unset, func(m *store.ToolCallMove) bool { return m.WhileTurn }),
)

// toolCallInserts add a ToolCall; toolCallTakes add one that runs, unless its Turn is over or
// its id or its idempotency key is taken.
var (
	toolCallInserts = newInsert("tool_calls", "",
		toolCallFields(func(m *store.InsertToolCall) *store.ToolCall { return &m.ToolCall })...)
	toolCallTakes = newInsert("tool_calls", ` WHERE EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = {turn_id}
		AND turns.status NOT IN ('DONE', 'FAILED', 'CANCELLED')) ON CONFLICT DO NOTHING`,
		toolCallFields(func(m *store.TakeToolCall) *store.ToolCall { return &m.ToolCall })...)
)

// toolCallFields are the columns of the ToolCall of a move M.
func toolCallFields[M any](of func(M) *store.ToolCall) []field[M] {
	return []field[M]{
		textField("tool_call_id", replace, func(m M) string { return of(m).ID }),
		textField("session_id", replace, func(m M) string { return of(m).SessionID }),
		textField("turn_id", replace, func(m M) string { return of(m).TurnID }),
		textField("run_id", replace, func(m M) string { return of(m).RunID }),
		textField("tool_name", replace, func(m M) string { return of(m).Name }),
		textField("kind", replace, func(m M) string { return string(of(m).Kind) }),
		textField("status", replace, func(m M) string { return string(of(m).Status) }),
		jsonField("args", replace, func(m M) []byte { return of(m).Args }),
		jsonField("result", replace, func(m M) []byte { return of(m).Result }),
		textField("error_code", replace, func(m M) string { return of(m).ErrorCode }),
		textField("upstream_id", replace, func(m M) string { return of(m).UpstreamID }),
		flagField("told", replace, func(m M) bool { return of(m).InTranscript }),
		flagField("carded", replace, func(m M) bool { return of(m).Carded }),
		timeField("created_at", replace, func(m M) time.Time { return of(m).CreatedAt }),
		timeField("expires_at", replace, func(m M) time.Time { return of(m).ExpiresAt }),
		timeField("ended_at", replace, func(m M) time.Time { return of(m).EndedAt }),
		timeField("delivered_at", replace, func(m M) time.Time { return of(m).DeliveredAt }),
		textField("args_sha256", replace, func(m M) string { return of(m).ArgsSHA256 }),
		flagField("edited", replace, func(m M) bool { return of(m).Edited }),
		jsonField("error", replace, func(m M) []byte { return of(m).Error }),
		textField("idempotency_key", replace, func(m M) string { return of(m).IdempotencyKey }),
		textField("risk", replace, func(m M) string { return of(m).Risk }),
		textField("grant_id", replace, func(m M) string { return of(m).GrantID }),
		textField("on_failure", replace, func(m M) string { return string(of(m).OnFailure) }),
		numberField("timeout_ms", replace, func(m M) int64 { return of(m).Timeout.Milliseconds() }),
		textField("replica", replace, func(m M) string { return of(m).Replica }),
		timeField("running_at", replace, func(m M) time.Time { return of(m).RunningAt }),
		jsonField("event", replace, func(m M) []byte { return of(m).Event }),
	}
}

// toolCallShown sets the Run that shows the call. It is lost where the call was answered meanwhile, unless that does
// not matter (Anyway).
func toolCallShown(m store.ToolCallShown) Statement {
	s := Statement{SQL: "UPDATE tool_calls SET run_id = $2, carded = carded OR $3 WHERE tool_call_id = $1", Args: []any{m.ID, m.RunID, m.Carded}}
	if !m.Anyway {
		s.SQL, s.CAS = s.SQL+" AND "+waiting, true
	}
	return s
}

// toolCallInTranscript is lost where the log has the result already: of two that would write it, one does.
func toolCallInTranscript(m store.ToolCallInTranscript) Statement {
	return Statement{
		SQL:  "UPDATE tool_calls SET told = TRUE WHERE tool_call_id = $1 AND NOT told",
		Args: []any{m.ID},
		CAS:  true,
	}
}

// toolCallDelivered marks the answer as passed on, once, and before the Agent gets it. While, where it is set, is the
// status that the call must still have.
func toolCallDelivered(m store.ToolCallDelivered) Statement {
	return Statement{
		SQL:  "UPDATE tool_calls SET delivered_at = $2 WHERE tool_call_id = $1 AND delivered_at = 0 AND ($3 = '' OR status = $3)",
		Args: []any{m.ID, millis(m.At), string(m.While)},
		CAS:  true,
	}
}
