package trace

import (
	"encoding/json"
	"time"

	"aqueduct/store"
)

// Call is the payload of tool_call_created.
type Call struct {
	ToolCallID string             `json:"tool_call_id"`
	ToolName   string             `json:"tool_name"`
	Kind       store.ToolCallKind `json:"kind,omitempty"` // unknown of a tool that is not there
	Args       json.RawMessage    `json:"args,omitempty"`
	ArgsBytes  int                `json:"args_bytes,omitempty"` // in place of Args that are too large
	ArgsSHA256 string             `json:"args_sha256,omitempty"`
	Key        string             `json:"idempotency_key,omitempty"`
	UpstreamID string             `json:"upstream_id,omitempty"`
	Refused    bool               `json:"refused,omitempty"` // the call was not taken: no row of it is kept
}

// Dispatch is the payload of tool_dispatched.
type Dispatch struct {
	ToolCallID   string             `json:"tool_call_id"`
	ToolName     string             `json:"tool_name"`
	Kind         store.ToolCallKind `json:"kind"`
	ClientCallID string             `json:"client_call_id,omitempty"` // under which an approved call is put to the client
	DeadlineTS   int64              `json:"deadline_ts,omitempty"`    // Unix milliseconds
	Traceparent  string             `json:"traceparent,omitempty"`    // as the tool is given it
}

// Result is the payload of tool_result.
type Result struct {
	ToolCallID   string               `json:"tool_call_id"`
	ToolName     string               `json:"tool_name"`
	Kind         store.ToolCallKind   `json:"kind,omitempty"`
	ClientCallID string               `json:"client_call_id,omitempty"`
	Status       store.ToolCallStatus `json:"status"`
	Result       json.RawMessage      `json:"result"`                 // null where there is none, or it is too large
	ResultBytes  int                  `json:"result_bytes,omitempty"` // in place of a result that is too large
	Error        json.RawMessage      `json:"error"`                  // {code, message}; null when it succeeded
	By           string               `json:"decided_by,omitempty"`
	Via          string               `json:"decided_via,omitempty"`
	DurationMS   int64                `json:"duration_ms"`       // since the call was made
	Refused      bool                 `json:"refused,omitempty"` // the call was not taken
	Late         bool                 `json:"late,omitempty"`    // of no effect: the call had ended
}

// bounded is a value that is not too large, else its length.
func bounded(raw []byte) (json.RawMessage, int) {
	if len(raw) > MaxValue {
		return nil, len(raw)
	}
	return raw, 0
}

// Created is tool_call_created.
func Created(call store.ToolCall) store.Record {
	c := Call{
		ToolCallID: call.ID, ToolName: call.Name, Kind: call.Kind, ArgsSHA256: call.ArgsSHA256, Key: call.IdempotencyKey, UpstreamID: call.UpstreamID,
	}
	c.Args, c.ArgsBytes = bounded(call.Args)
	return Record(ToolCallCreated, call.SessionID, call.TurnID, call.CreatedAt, c)
}

// Dispatched is tool_dispatched. clientCall is the call that the client sees, where that is another.
func Dispatched(call store.ToolCall, clientCall, traceparent string, at, deadline time.Time) store.Record {
	d := Dispatch{ToolCallID: call.ID, ToolName: call.Name, Kind: call.Kind, ClientCallID: clientCall, Traceparent: traceparent}
	if !deadline.IsZero() {
		d.DeadlineTS = deadline.UnixMilli()
	}
	return Record(ToolDispatched, call.SessionID, call.TurnID, at, d)
}

// ResultOf is the payload of tool_result for a call that has ended. The wall clock may have been set back in between, so
// the duration is never below zero. A call that ended without an error of its own shows the code alone.
func ResultOf(call store.ToolCall) Result {
	r := Result{
		ToolCallID: call.ID, ToolName: call.Name, Kind: call.Kind, Status: call.Status, Error: call.Error,
		DurationMS: max(0, call.EndedAt.Sub(call.CreatedAt).Milliseconds()),
	}
	r.Result, r.ResultBytes = bounded(call.Result)
	if len(r.Error) == 0 && call.ErrorCode != "" && call.Status != store.ToolSucceeded {
		r.Error, _ = json.Marshal(map[string]string{"code": call.ErrorCode}) // strings always can be written
	}
	return r
}

// Record makes tool_result of a payload.
func (r Result) Record(call store.ToolCall, at time.Time) store.Record {
	return Record(ToolResult, call.SessionID, call.TurnID, at, r)
}

// Ended is tool_result of a call that a move ends, kept only if that move takes effect.
func Ended(call store.ToolCall, m store.ToolCallMove) store.RecordOf {
	return If(m.To, m.EndedAt, ResultOf(call.Ended(m)).Record(call, m.EndedAt))
}

// If has a Record about a ToolCall kept only if that is in the status since a time. Both together name the very move: an
// attempt that another replica made meanwhile has the status too, but began or ended at another time.
func If(status store.ToolCallStatus, at time.Time, r store.Record) store.RecordOf {
	var of struct {
		ID string `json:"tool_call_id"`
	}
	_ = json.Unmarshal(r.Payload, &of) // of our own writing
	return store.RecordOf{Record: r, ToolCallID: of.ID, Status: status, At: at}
}

// Refused are the Records of a call that was not taken: tool_call_created and tool_result under one id that no row has.
// args is what the agent sent, which need not be JSON.
func Refused(call store.ToolCall, args []byte, code, message string) []store.Record {
	c := Call{ToolCallID: call.ID, ToolName: call.Name, Kind: call.Kind, Key: call.IdempotencyKey, Refused: true}
	if c.Args, c.ArgsBytes = bounded(args); !json.Valid(c.Args) {
		c.Args, c.ArgsBytes = nil, len(args)
	}
	r := ResultOf(call)
	r.Refused, r.Status, r.DurationMS = true, store.ToolFailed, 0
	r.Error, _ = json.Marshal(map[string]string{"code": code, "message": message}) // strings always can be written
	return []store.Record{
		Record(ToolCallCreated, call.SessionID, call.TurnID, call.CreatedAt, c),
		r.Record(call, call.CreatedAt),
	}
}
