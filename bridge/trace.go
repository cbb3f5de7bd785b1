package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// Of a Turn from before all that happens was kept as Records (store.Turn.Traced), what happened is read from the rows of
// Turn, Runs, messages and ToolCalls: of a call that was run again, the last time.

// oldTrace is the trace of such a Turn beside its events, oldest first, with places that hold while nothing happens in it.
func oldTrace(ctx context.Context, r store.Reader, in store.Scope, turn store.Turn) ([]store.PlacedRecord, error) {
	kept, err := allRecords(ctx, r, in, turn.ID)
	if err != nil {
		return nil, err
	}
	runs, err := r.RunsOfTurn(ctx, in, turn.ID)
	if err != nil {
		return nil, err
	}
	inputs, err := oldInputs(ctx, r, in, turn)
	if err != nil {
		return nil, err
	}
	calls, err := r.ToolCallsOfTurn(ctx, in, turn.ID)
	if err != nil {
		return nil, err
	}
	read := slices.Concat(inputs, lifeOf(turn, runs))
	for _, call := range calls {
		read = append(read, lifeOfCall(turn, call)...)
	}
	all := append(notKept(read, kept), kept...)
	slices.SortStableFunc(all, traceOrder)
	placed := make([]store.PlacedRecord, len(all))
	for i := range all {
		placed[i] = store.PlacedRecord{Record: all[i], Pos: int64(i + 1)}
	}
	return placed, nil
}

// notKept leaves out what is kept as a Record all the same: the Turn went on after the change.
func notKept(read, kept []store.Record) []store.Record {
	type about struct{ kind, call string }
	known := make(map[about]bool)
	for _, k := range kept {
		if call := callOf(k); call != "" {
			known[about{k.Type, call}] = true
		}
	}
	return slices.DeleteFunc(read, func(r store.Record) bool { return known[about{r.Type, callOf(r)}] })
}

// inputLead is how much older than its Turn a message may be that began it: both ids are made
// for the same request.
const inputLead = time.Minute

// oldInputs are the messages that began a Turn.
func oldInputs(ctx context.Context, r store.Reader, in store.Scope, turn store.Turn) (inputs []store.Record, err error) {
	messages, err := r.Messages(ctx, in, turn.SessionID, store.Page{After: idAt(turn.CreatedAt.Add(-inputLead)), Limit: store.MaxPageLimit})
	for _, m := range messages {
		if m.RunID == turn.ID && !m.Output {
			inputs = append(inputs, told(turn, trace.UserInput, m.ID, m.CreatedAt, m.Data))
		}
	}
	return inputs, err
}

// traceOrder is the order of time; within one millisecond what begins stands before what ends.
func traceOrder(a, b store.Record) int {
	if c := a.TS.Compare(b.TS); c != 0 {
		return c
	}
	of, and := callOf(a), callOf(b)
	return cmp.Or(cmp.Compare(group(a, of), group(b, and)), cmp.Compare(of, and), cmp.Compare(rank(a.Type), rank(b.Type)))
}

// lifeOf says when a Turn and each of its Runs began and ended.
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
		Type: kind, AtSeq: -1, TS: at, Payload: payload, // -1: joined by time
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
