// This file makes Records of what Turns from before Records were kept have in their rows. It is for old databases
// alone: a Turn that begins today is traced.

package reader

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// A Turn from before Records were kept of everything (store.Turn.Traced) has its life in the rows of Turn, Runs, messages
// and ToolCalls alone: of a call that was executed again, only the last time.

// oldTrace are the Records of such a Turn, oldest first, with positions that hold while nothing more happens in it.
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

// notKept leaves out of what was read from rows what is kept as a Record as well: the Turn was under way when Records
// were introduced. It changes the slice read.
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

// inputLead is how much older than its Turn a message may be that began it: the ids of both are made for one request.
const inputLead = time.Minute

// oldInputs are the messages that began a Turn.
func oldInputs(ctx context.Context, r store.Reader, in store.Scope, turn store.Turn) (inputs []store.Record, err error) {
	messages, err := r.Messages(ctx, in, turn.SessionID, store.Page{After: idAt(turn.CreatedAt.Add(-inputLead)), Limit: store.MaxPageLimit})
	for _, m := range messages {
		if m.RunID == turn.ID && !m.Output {
			inputs = append(inputs, recordOf(turn, trace.UserInput, m.ID, m.CreatedAt, m.Data))
		}
	}
	return inputs, err
}

// traceOrder is the order of time; within one millisecond, which is as exact as rows are, a beginning comes before an
// end.
func traceOrder(a, b store.Record) int {
	if c := a.TS.Compare(b.TS); c != 0 {
		return c
	}
	of, and := callOf(a), callOf(b)
	return cmp.Or(cmp.Compare(group(a, of), group(b, and)), cmp.Compare(of, and), cmp.Compare(rank(a.Type), rank(b.Type)))
}

// lifeOf are the Records of when a Turn and each of its Runs began and ended. Calls of the Agent left no row, so each
// Run stands for one, although an Agent that asked may have gone on through several.
func lifeOf(turn store.Turn, runs []store.Run) []store.Record {
	var life []store.Record
	if !turn.StartedAt.IsZero() {
		life = append(life, recordOf(turn, trace.RunStarted, turn.ID, turn.StartedAt, nil))
	}
	for _, run := range runs {
		if !run.StartedAt.IsZero() {
			life = append(life, recordOf(turn, trace.AgentInvokeStarted, run.ID, run.StartedAt, nil))
		}
		if !run.EndedAt.IsZero() {
			life = append(life, recordOf(turn, trace.AgentInvokeDone, run.ID, run.EndedAt, mustJSON(map[string]string{"status": string(run.Status)})))
		}
	}
	switch turn.Status {
	case store.TurnDone:
		life = append(life, recordOf(turn, trace.RunDone, turn.ID, turn.EndedAt, turn.Usage))
	case store.TurnFailed, store.TurnCancelled:
		code := turn.ErrorCode
		if turn.Status == store.TurnCancelled {
			code = "cancelled"
		}
		life = append(life, recordOf(turn, trace.RunFailed, turn.ID, turn.EndedAt,
			mustJSON(map[string]string{"code": code, "message": turn.ErrorMessage})))
	default:
	}
	return life
}

// lifeOfCall are the Records of a call that came to the tool proxy. Those of other calls are kept with the Run that shows
// them.
func lifeOfCall(turn store.Turn, call store.ToolCall) []store.Record {
	if call.Kind == store.KindQuestion || call.ArgsSHA256 == "" {
		return nil
	}
	type named struct {
		ID   string `json:"tool_call_id"`
		Name string `json:"tool_name"`
	}
	of := named{call.ID, call.Name}
	life := []store.Record{recordOf(turn, trace.ToolCallCreated, call.ID, call.CreatedAt, mustJSON(struct {
		named
		Kind   store.ToolCallKind `json:"kind"`
		SHA256 string             `json:"args_sha256"`
	}{of, call.Kind, call.ArgsSHA256}))}
	if !call.RunningAt.IsZero() {
		life = append(life, recordOf(turn, trace.ToolDispatched, call.ID, call.RunningAt, mustJSON(of)))
	}
	if call.Kind == store.KindServer && !call.EndedAt.IsZero() {
		life = append(life, recordOf(turn, trace.ToolResult, call.ID, call.EndedAt, mustJSON(struct {
			named
			Status store.ToolCallStatus `json:"status"`
			Result json.RawMessage      `json:"result"`
			Error  json.RawMessage      `json:"error"`
		}{of, call.Status, call.Result, call.Error})))
	}
	return life
}

// recordOf makes a Record of what a row holds. Its id is made of the row's id and the kind, so it is the same in each
// read.
func recordOf(turn store.Turn, kind, rowID string, at time.Time, payload []byte) store.Record {
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
	case trace.ToolCallCreated, trace.PolicyDecision, trace.ApprovalCreated, trace.ApprovalDecision, trace.ToolDispatched, trace.ToolResult:
		_ = json.Unmarshal(r.Payload, &of) // the server wrote it
	}
	return cmp.Or(of.Call, of.Approval)
}

// group orders what happened in one millisecond. Entries of one tool call stay together, even if the next call started in
// the same millisecond.
func group(r store.Record, call string) int {
	if call != "" {
		return rank(trace.ToolCallCreated)
	}
	return rank(r.Type)
}

// rank orders what is about one thing: beginnings first, ends last.
func rank(kind string) int {
	switch kind {
	case trace.UserInput:
		return 0
	case trace.RunStarted:
		return 1
	case trace.AgentInvokeStarted:
		return 2
	case trace.ToolCallCreated:
		return 3
	case trace.ToolDispatched:
		return 5
	case trace.ToolResult:
		return 6
	case trace.AgentInvokeDone:
		return 7
	case trace.RunDone, trace.RunFailed:
		return 8
	}
	return 4
}

// allRecords are the Records of a Turn, page by page: an old one has few.
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

// idAt sorts before every id that the server makes at or after a time.
func idAt(t time.Time) string {
	ms := max(t.UnixMilli(), 0)
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}

// mustJSON encodes values of this package, which always can be encoded.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("reader: " + err.Error())
	}
	return raw
}
