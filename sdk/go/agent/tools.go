// This file has Aqueduct run tools: POST /v1/tools/{name}:invoke, and :wait for as long as the call is pending
// (docs/tools.md). Policy, approval and execution are the server's; an approval may take days, through which the
// function waits.

package agent

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

const (
	// waitFor is how long one :wait may take; the server answers sooner when the call has ended.
	waitFor = 20 * time.Second
	// margin is what a request may take longer than what it waits for.
	margin = time.Minute
	// briefWait is what a :wait takes at least at a server that waits.
	briefWait = time.Second
)

// ToolCall is a call of a tool that Aqueduct runs, or asks people about.
type ToolCall struct {
	Name string
	Args any
	// CallID is the id of the tool_call frame that shows this call.
	CallID string
	// IdempotencyKey: the same key in the same run is the same call, which runs once. One is made where there is none.
	IdempotencyKey string
	// Timeout is how long the tool may run. The time that people take to decide does not count.
	Timeout time.Duration
}

// Tool calls a tool and waits for its result, however long people take to decide. The error of a tool that gave none is an
// *Error with the code of docs/tools.md, such as "rejected".
func (r *Run) Tool(ctx context.Context, name string, args, into any) error {
	return r.ToolWith(ctx, ToolCall{Name: name, Args: args}, into)
}

// outcome is what Aqueduct answers to a call of a tool. Status is succeeded, failed or pending; ID is the server's
// own id of the call, by which it is waited for.
type outcome struct {
	Status string          `json:"status"`
	ID     string          `json:"tool_call_id"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// ToolWith is Tool with everything that a call may have.
func (r *Run) ToolWith(ctx context.Context, call ToolCall, into any) (err error) {
	key := call.IdempotencyKey
	if key == "" {
		if key, err = r.keys.next(call.Name, call.Args); err != nil {
			return err
		}
	}
	r.replay.called(key)
	body := map[string]any{"run_id": r.ID, "args": call.Args, "idempotency_key": key}
	if call.Args == nil {
		body["args"] = struct{}{}
	}
	if call.CallID != "" {
		body["call_id"] = call.CallID
	}
	if call.Timeout > 0 {
		body["timeout_ms"] = max(1, call.Timeout.Milliseconds())
	}
	// The request is given as long as the tool may run, and margin on top, so that the server's answer comes before
	// the client gives up.
	got, err := r.link.post(ctx, max(call.Timeout, waitFor)+margin, "/v1/tools/"+url.PathEscape(call.Name)+":invoke", body)
	id := ""
	for pauses := newTries(); err == nil; {
		var o outcome
		_ = json.Unmarshal(got.raw, &o) // what is no outcome has no status
		switch {
		case o.Error != nil:
			return o.Error
		case got.status >= 300:
			return refusal(got.status, got.raw)
		case o.Status == "succeeded":
			return taken(o.Result, into)
		}
		if o.ID != "" {
			id = o.ID
		}
		if o.Status != "pending" || id == "" {
			return &Error{Code: "bad_answer", Message: "Aqueduct's answer to the tool call could not be read."}
		}
		got, err = r.waitTool(ctx, id, pauses)
	}
	return err
}

// waitTool waits for the end of a call. A server that does not wait is not asked in a tight loop.
func (r *Run) waitTool(ctx context.Context, id string, pauses *tries) (whole, error) {
	before := time.Now()
	got, err := r.link.post(ctx, waitFor+margin, "/v1/tool_calls/"+url.PathEscape(id)+":wait?timeout_ms="+strconv.FormatInt(waitFor.Milliseconds(), 10), struct{}{})
	var o outcome
	if err != nil || json.Unmarshal(got.raw, &o) != nil || o.Status != "pending" {
		return got, err
	}
	if time.Since(before) >= briefWait {
		pauses.progress()
		return got, nil
	}
	return got, pauses.wait(ctx)
}

// taken is a result, for who wants it.
func taken(result json.RawMessage, into any) error {
	if into == nil || len(result) == 0 {
		return nil
	}
	return json.Unmarshal(result, into)
}
