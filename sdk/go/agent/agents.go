// This file calls other agents through Aqueduct: POST /v1/agents/{id}:invoke, whose answer is a stream with ids
// (docs/agents.md). The stream may break at any place; the call goes on meanwhile, and is taken up behind the last
// event that arrived.

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxEvent is the most bytes of one line of a called agent's stream, and Aqueduct writes an event's data as one: a delta is a
// piece of a text, far below.
const maxEvent = 4 << 20

// AgentCall is a call of another agent (docs/agents.md, "Agents that call agents").
type AgentCall struct {
	AgentID string
	Message string
	// Messages are what the called agent has to know before it, Context facts by name.
	Messages []Message
	Context  map[string]any
	// IdempotencyKey: the same key in the same run is the same call, whose agent works once. One is made where there is none.
	IdempotencyKey string
	// OnState is called with RUNNING, WAITING_APPROVAL, WAITING_TOOL, and what the agent itself calls a state.
	OnState func(state string)
}

// Reply is what a called agent gave.
type Reply struct {
	Text  string
	RunID string
	Usage json.RawMessage
}

// Invoke calls another agent and waits for its end. What it asks is asked in the caller's own chat. The error of an agent
// that failed is an *Error with its code.
func (r *Run) Invoke(ctx context.Context, agentID, message string) (Reply, error) {
	return r.InvokeWith(ctx, AgentCall{AgentID: agentID, Message: message})
}

// InvokeWith is Invoke with everything that a call may have. A stream that breaks is taken up where it broke.
func (r *Run) InvokeWith(ctx context.Context, call AgentCall) (got Reply, err error) {
	key := call.IdempotencyKey
	if key == "" {
		if key, err = r.keys.next(call.AgentID, call.Message, call.Messages, call.Context); err != nil {
			return got, err
		}
	}
	body := map[string]any{"run_id": r.ID, "input_message": map[string]string{"role": "user", "content": call.Message}, "idempotency_key": key}
	if len(call.Messages) > 0 {
		body["messages"] = call.Messages
	}
	if len(call.Context) > 0 {
		body["context"] = call.Context
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return got, err
	}
	in := &incoming{call: call, tries: newTries()}
	for {
		ended, err := r.follow(ctx, in, raw)
		if ended || err != nil {
			return in.reply(), err
		}
		if err := in.tries.wait(ctx); err != nil {
			return in.reply(), err
		}
	}
}

// follow reads a call's stream until it ends or breaks. Neither ended nor an error is a connection that broke, or a
// server that cannot now: it is to be tried again, with the same key, which makes it the same call.
func (r *Run) follow(ctx context.Context, in *incoming, body []byte) (ended bool, err error) {
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	if in.last != "" {
		header.Set("Last-Event-ID", in.last)
	}
	resp, err := r.link.send(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(in.call.AgentID)+":invoke", header, body)
	if err != nil {
		return false, lasting(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent)) // what is there of it
		if passing(resp.StatusCode) {
			return false, nil
		}
		return false, refusal(resp.StatusCode, raw)
	}
	if ended, err = in.read(resp.Body); ended || err != nil {
		return ended, err
	}
	return false, context.Cause(ctx)
}

// incoming is a call's stream, over all of its connections. One goroutine uses it. An event is taken once: text and
// position are of whole events only.
type incoming struct {
	call  AgentCall
	tries *tries
	last  string // the id of the last event
	text  strings.Builder
	runID string
	usage json.RawMessage
}

func (in *incoming) reply() Reply { return Reply{in.text.String(), in.runID, in.usage} }

// read takes events, by as much of the grammar of Server-Sent Events as Aqueduct's streams use; a stream that breaks
// is no error. What came of an event that was cut is dropped: it comes again.
func (in *incoming) read(body io.Reader) (ended bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	var id, name string
	var data []byte
	for lines.Scan() {
		in.tries.progress() // comments count too: a called agent may wait for a person for hours
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(field) {
		case "id":
			id = string(value)
		case "event":
			name = string(value)
		case "data":
			data = append(data, value...)
		case "":
			if name == "" || len(lines.Bytes()) > 0 { // a comment
				continue
			}
			if id != "" {
				in.last = id
			}
			if ended, err := in.take(name, data); ended || err != nil {
				return ended, err
			}
			id, name, data = "", "", nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) { // the same would come each time
		return false, fmt.Errorf("a line of the stream of %s has more than %d bytes", in.call.AgentID, maxEvent)
	}
	return false, nil
}

// take takes one event. Names that are not known mean nothing: a later server may have more.
func (in *incoming) take(name string, raw []byte) (ended bool, err error) {
	var data struct {
		RunID string          `json:"run_id"`
		Text  string          `json:"text"`
		State string          `json:"state"`
		Usage json.RawMessage `json:"usage"`
		Error
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return false, err
	}
	if data.RunID != "" {
		in.runID = data.RunID
	}
	switch name {
	case "delta":
		in.text.WriteString(data.Text)
	case "state":
		if in.call.OnState != nil {
			in.call.OnState(data.State)
		}
	case "done":
		in.usage = data.Usage
		return true, nil
	case "error":
		return true, &Error{Code: data.Code, Message: data.Message}
	}
	return false, nil
}
