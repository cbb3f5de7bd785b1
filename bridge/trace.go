package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/store"
)

// Trace is what is on record of a Turn beside its events, oldest first: the platform
// contract's events (§9.1). What the rows of Turn, Runs, messages and ToolCalls tell already
// is not kept a second time but told from them; of a call that was run again, the last time.
func Trace(ctx context.Context, r store.Reader, in store.Scope, turnID string) ([]store.Record, error) {
	turn, err := r.Turn(ctx, in, turnID)
	if err != nil {
		return nil, err
	}
	trace, err := allRecords(ctx, r, in, turnID)
	if err != nil {
		return nil, err
	}
	runs, err := r.RunsOfTurn(ctx, in, turnID)
	if err != nil {
		return nil, err
	}
	messages, err := r.Messages(ctx, in, turn.SessionID, store.Page{Limit: historyLimit})
	if err != nil {
		return nil, err
	}
	calls, err := r.ToolCallsOfTurn(ctx, in, turnID)
	if err != nil {
		return nil, err
	}
	for _, call := range calls {
		trace = append(trace, lifeOfCall(turn, call)...)
	}
	for _, m := range messages {
		if m.RunID == turn.ID && !m.Output {
			trace = append(trace, told(turn, "user_input", m.ID, m.CreatedAt, m.Data))
		}
	}
	trace = append(trace, lifeOf(turn, runs)...)
	slices.SortStableFunc(trace, traceOrder)
	return trace, nil
}

// traceOrder is the order of time; within one millisecond what begins stands before what ends.
func traceOrder(a, b store.Record) int {
	if c := a.TS.Compare(b.TS); c != 0 {
		return c
	}
	of, and := callOf(a), callOf(b)
	return cmp.Or(cmp.Compare(group(a, of), group(b, and)), cmp.Compare(of, and), cmp.Compare(rank(a.Type), rank(b.Type)))
}

// lifeOf tells when a Turn and each call of its Agent began and ended.
func lifeOf(turn store.Turn, runs []store.Run) []store.Record {
	var life []store.Record
	if !turn.StartedAt.IsZero() {
		life = append(life, told(turn, "run_started", turn.ID, turn.StartedAt, nil))
	}
	for _, run := range runs {
		if !run.StartedAt.IsZero() {
			life = append(life, told(turn, "agent_invoke_started", run.ID, run.StartedAt, nil))
		}
		if !run.EndedAt.IsZero() {
			life = append(life, told(turn, "agent_invoke_done", run.ID, run.EndedAt, mustJSON(map[string]string{"status": string(run.Status)})))
		}
	}
	switch turn.Status {
	case store.TurnDone:
		life = append(life, told(turn, "run_done", turn.ID, turn.EndedAt, turn.Usage))
	case store.TurnFailed, store.TurnCancelled:
		code := turn.ErrorCode
		if turn.Status == store.TurnCancelled {
			code = "cancelled"
		}
		life = append(life, told(turn, "run_failed", turn.ID, turn.EndedAt,
			mustJSON(map[string]string{"code": code, "message": turn.ErrorMessage})))
	}
	return life
}

// lifeOfCall tells of a call that came to the tool proxy. The others' Records are kept with
// the Run that shows them.
func lifeOfCall(turn store.Turn, call store.ToolCall) []store.Record {
	if call.Kind == store.KindQuestion || call.ArgsSHA256 == "" {
		return nil
	}
	type named struct {
		ID   string `json:"tool_call_id"`
		Name string `json:"tool_name"`
	}
	of := named{call.ID, call.Name}
	life := []store.Record{told(turn, "tool_call_created", call.ID, call.CreatedAt, mustJSON(struct {
		named
		Kind   store.ToolCallKind `json:"kind"`
		SHA256 string             `json:"args_sha256"`
	}{of, call.Kind, call.ArgsSHA256}))}
	if !call.RunningAt.IsZero() {
		life = append(life, told(turn, "tool_dispatched", call.ID, call.RunningAt, mustJSON(of)))
	}
	if call.Kind == store.KindServer && !call.EndedAt.IsZero() {
		life = append(life, told(turn, "tool_result", call.ID, call.EndedAt, mustJSON(struct {
			named
			Status store.ToolCallStatus `json:"status"`
			Result json.RawMessage      `json:"result"`
			Error  json.RawMessage      `json:"error"`
		}{of, call.Status, call.Result, call.Error})))
	}
	return life
}

// told is a Record that a row tells; its id is the row's and what it tells of it.
func told(turn store.Turn, kind, rowID string, at time.Time, payload []byte) store.Record {
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	return store.Record{
		ID: rowID + "." + kind, SessionID: turn.SessionID, TurnID: turn.ID, Source: store.SourcePlatform,
		Type: kind, TS: at, Payload: payload,
	}
}

// callOf is the ToolCall that a Record is about; "" when it is about none.
func callOf(r store.Record) string {
	var of struct {
		Call     string `json:"tool_call_id"`
		Approval string `json:"approval_id"`
	}
	switch r.Type {
	case "tool_call_created", store.RecordDecision, "approval_created", "approval_decision", "tool_dispatched", "tool_result":
		_ = json.Unmarshal(r.Payload, &of) // of our own writing
	}
	return cmp.Or(of.Call, of.Approval)
}

// group orders what happened in one millisecond. Of ToolCalls one is told after the other,
// though the next may have begun in the millisecond that the one before ended.
func group(r store.Record, call string) int {
	if call != "" {
		return rank("tool_call_created")
	}
	return rank(r.Type)
}

// rank orders what is about one thing: beginnings first, ends last.
func rank(kind string) int {
	switch kind {
	case "user_input":
		return 0
	case "run_started":
		return 1
	case "agent_invoke_started":
		return 2
	case "tool_call_created":
		return 3
	case "tool_dispatched":
		return 5
	case "tool_result":
		return 6
	case "agent_invoke_done":
		return 7
	case "run_done", "run_failed":
		return 8
	}
	return 4
}

func allRecords(ctx context.Context, r store.Reader, in store.Scope, turnID string) ([]store.Record, error) {
	var all []store.Record
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		some, err := r.RecordsOfTurn(ctx, in, turnID, page)
		all = append(all, some...)
		if err != nil || len(some) < page.Size() {
			return all, err
		}
		page.After = some[len(some)-1].ID
	}
}
