package tools

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// Caller is the Turn in whose name something is called, with what rules and traces go by.
type Caller struct {
	TurnID string
	// Session is where the call comes from, with the Agent that answers in the Turn. Who makes a Caller has authorized it.
	Session store.Session
	By      policy.Principal // whose prompt led to it
	// Trace is the span that the call is made in; the zero one when its Turn has none.
	Trace trace.Context
}

// CallerOf is the Caller that a Turn is by its rows.
func CallerOf(session store.Session, turn store.Turn) Caller {
	span, _ := trace.Parse(turn.Traceparent, turn.Tracestate)
	return Caller{TurnID: turn.ID, Session: approval.Answering(session, turn), By: approval.Prompter(session, turn), Trace: span}
}

// Request is one call of a tool, as an agent makes it.
type Request struct {
	Caller
	Name    string
	Args    json.RawMessage
	Key     string // idempotency key; "" for none
	CallID  string // the agent's own id of the call; "" means the Key
	Timeout time.Duration
	// Declared reads the tools that the user's client has, with their JSON Schemas.
	Declared func(context.Context, store.Reader) (map[string]json.RawMessage, error)
}

// agentsID is the agent's own id of the call; "" when it has none.
func (r Request) agentsID() string { return cmp.Or(r.CallID, r.Key) }

// checkArgs returns the arguments in one line, if the tool's schema accepts them.
// The arguments are made one line because they are hashed, kept and shown in that form: the same call written with
// other spaces is the same call.
func checkArgs(ctx context.Context, tool compiledTool, raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, fault.New(CodeInvalidArgs, "The arguments are no JSON.")
	}
	if line.Len() > maxArgs {
		return nil, fault.New(CodeInvalidArgs, "The arguments are too large.")
	}
	if err := tool.schema.CheckIn(ctx, line.Bytes()); err != nil {
		return nil, schema.Fault(err, CodeInvalidArgs)
	}
	return line.Bytes(), nil
}

// CallID derives our id of a call from the agent's id of it. The result is the same for the same call in one Turn, so that
// a call which the agent shows by its own frames, and also has executed here, is one call in the chat. The id carries the
// time of the Turn, because lists are ordered by id.
func CallID(turnID, agentsID string) string {
	sum := sha256.Sum256([]byte("tool_call\x00" + turnID + "\x00" + agentsID))
	var id uuid.UUID
	copy(id[:], sum[:])
	if turn, err := uuid.Parse(turnID); err == nil {
		copy(id[:6], turn[:6]) // UUIDv7: milliseconds
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80 // version 7, and RFC 9562's variant
	return id.String()
}
