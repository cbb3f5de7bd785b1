// This file executes a client's messages with the same calls as the HTTP routes. It does not know
// whether they came by a WebSocket or a signed POST; what is sent back is the business of connection
// and webhook.

package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// dispatcher executes the messages of one user, from a WebSocket or a webhook. A connection's reader owns it; a
// webhook makes one for each request. It knows its connection only through before, so both surfaces run the same
// code.
type dispatcher struct {
	h      *Handler
	caller auth.Caller
	in     store.Scope // what the caller sees
	// callback: the answers go to the channel's callback and not to a connection
	callback bool
	remote   string // the address it comes from
	// before is called with the session in which something is about to be done; nil for a webhook.
	before func(ctx context.Context, s store.Session) error
}

// Envelope are the members that any message may have. request_id is the client's own and comes back in every answer;
// session_id is the thread's name, and run_id the id of the Turn.
type Envelope struct {
	Type      string `json:"type" validate:"required"`
	RequestID string `json:"request_id" validate:"max=128"`
	SessionID string `json:"session_id" validate:"max=128"`
	RunID     string `json:"run_id" validate:"max=128"`
}

// decodeEnvelope reads the members that every message may have; the rest is read by type. A message that is too large
// arrives as nil and is refused here.
func (d *dispatcher) decodeEnvelope(raw []byte) (Envelope, error) {
	var f Envelope
	err := d.h.In.Message(raw, &f)
	return f, err
}

// allow counts one action of the caller.
func (d *dispatcher) allow(a limit.Action) error {
	return d.h.In.Brakes.Take(a, d.caller.Principal, d.remote)
}

// surface is the surface that decisions of this channel come through.
const surface = "ingress"

// invokeFrame is one message of the user's. Its request_id makes it idempotent: it is the runId of the Run and the id
// of the message. agent_id may be left out; the bridge then chooses the Agent. For example
// {"type":"agent_invoke","request_id":"r1","session_id":"t1","message":{"role":"user","content":"hi"}}.
type invokeFrame struct {
	AgentID string      `json:"agent_id" validate:"max=128"`
	Message userMessage `json:"message"`
	// Tools are those that the client can run, as AG-UI declares them.
	Tools []toolDeclaration `json:"tools" validate:"max=128"`
}

// toolDeclaration is an agui.Tool with the names of its members, which are read in their exact case.
type toolDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Metadata    json.RawMessage `json:"metadata"`
}

// tools are the frame's as the bridge takes them.
func (f invokeFrame) tools() []agui.Tool {
	if f.Tools == nil {
		return nil
	}
	tools := make([]agui.Tool, 0, len(f.Tools))
	for _, t := range f.Tools {
		tools = append(tools, agui.Tool(t))
	}
	return tools
}

// userMessage is the message of an invoke; no other role can be sent.
type userMessage struct {
	Role    string          `json:"role" validate:"omitempty,eq=user"`
	Content json.RawMessage `json:"content" validate:"required"`
}

// chat takes one message of the user's. Its results are in the log from the Reply's Run on. A client that lost its
// connection repeats the invoke with the same request_id and gets the Run that the first one started. A reply for
// another Run, or one that joined an open question, means that the message itself was not taken; that is an error,
// because this wire has no other way to report it. The ids are completed in frame, so that the answer names them also
// when the client sent none.
func (d *dispatcher) chat(ctx context.Context, frame *Envelope, raw []byte) (bridge.Reply, error) {
	var body invokeFrame
	if err := d.h.In.Message(raw, &body); err != nil {
		return bridge.Reply{}, err
	}
	if frame.RequestID == "" {
		frame.RequestID = uuid.NewString()
	}
	if frame.SessionID == "" {
		frame.SessionID = frame.RequestID // a session of its own, the same for the same request
	}
	req, err := d.chatRequest(*frame, body)
	if err != nil {
		return bridge.Reply{}, err
	}
	if err := d.allow(d.h.In.Brakes.Runs); err != nil {
		return bridge.Reply{}, err
	}
	reply, err := d.h.Sessions.Chat(ctx, req)
	if err == nil && (reply.Run.ExternalID != frame.RequestID || reply.Join) {
		err = fault.New(problem.MessageNotTaken, "A question of this session is open. Answer it, or cancel the run, and send the message again.")
	}
	return reply, err
}

// chatRequest is the POST that the message would be. BodyHash covers what the client sent and
// nothing that the server added, so that a repeated request compares equal and a changed one under
// the same request_id is refused.
func (d *dispatcher) chatRequest(frame Envelope, body invokeFrame) (bridge.ChatRequest, error) {
	m := agui.Message{ID: frame.RequestID, Role: agui.RoleUser}
	if err := json.Unmarshal(body.Message.Content, &m.Content); err != nil {
		return bridge.ChatRequest{}, problem.Refuse(problem.InvalidBody, "At /message/content: must be a string or an array of content parts.")
	}
	if m.Content.String() == "" && len(m.Content.Parts) == 0 {
		return bridge.ChatRequest{}, problem.Refuse(bridge.RefusedNothingToDo, "The message is empty.")
	}
	same, err := json.Marshal([]string{body.AgentID, string(body.Message.Content)})
	if err != nil {
		return bridge.ChatRequest{}, err
	}
	sum := sha256.Sum256(same)
	return bridge.ChatRequest{
		Principal: d.caller.Principal, Dialect: bridge.DialectV1, AgentID: body.AgentID,
		ThreadID: frame.SessionID, RunID: frame.RequestID, Messages: []agui.Message{m}, Tools: body.tools(), BodyHash: sum[:], Channel: true, Callback: d.callback,
	}, nil
}

// locate finds the session of something that was named, and refuses a run_id that is not the
// thing's. The session is followed before the action and not after: the action's events would
// otherwise be written before the subscription begins, and it begins at the present.
func (d *dispatcher) locate(ctx context.Context, frame *Envelope, sessionID, turnID string) error {
	if frame.RunID != "" && frame.RunID != turnID {
		return store.ErrNotFound
	}
	session, err := d.h.Store.Session(ctx, d.in, sessionID)
	if err != nil {
		return err
	}
	frame.RunID, frame.SessionID = turnID, session.ExternalID
	if d.before == nil {
		return nil
	}
	return d.before(ctx, session)
}

// ToolResultFrame is what came of a tool the client ran. For example
// {"type":"tool_result","tool_call_id":"…","ok":true,"result":{}}.
type ToolResultFrame struct {
	ToolCallID string `json:"tool_call_id" validate:"required,max=128"`
	answer.ToolResult
}

// toolResult settles a call of a client's tool. Brakes count after the checks: a client that repeats
// an unknown id must not use up the user's limit.
func (d *dispatcher) toolResult(ctx context.Context, frame *Envelope, raw []byte) (approval.Settled, error) {
	var body ToolResultFrame
	if err := d.h.In.Message(raw, &body); err != nil {
		return approval.Settled{}, err
	}
	call, err := d.h.Store.ToolCall(ctx, d.in, body.ToolCallID)
	if err == nil && call.Kind != store.KindClient {
		err = store.ErrNotFound // a question is decided
	}
	if err == nil {
		err = d.locate(ctx, frame, call.SessionID, call.TurnID)
	}
	if err != nil {
		return approval.Settled{}, err
	}
	if err := d.allow(d.h.In.Brakes.Decisions); err != nil {
		return approval.Settled{}, err
	}
	return d.h.Approvals.ToolResult(ctx, d.caller.Principal, call.ID, body.Answer(call.ID))
}

// decision settles a question. The options are checked against the approval as it is stored, because the client may
// show an older one. The order of the checks is that of toolResult: find, follow, read, count, settle.
func (d *dispatcher) decision(ctx context.Context, frame *Envelope, raw []byte) (approval.Settled, error) {
	var body answer.NamedDecision
	if err := d.h.In.Message(raw, &body); err != nil {
		return approval.Settled{}, err
	}
	a, err := answer.FindApproval(ctx, d.h.Store, d.h.Approvals, d.caller, d.in, body.ApprovalID)
	if err == nil {
		err = d.locate(ctx, frame, a.SessionID, a.TurnID)
	}
	if err != nil {
		return approval.Settled{}, err
	}
	words, err := body.Words()
	if err != nil {
		return approval.Settled{}, err
	}
	if err := d.allow(d.h.In.Brakes.Decisions); err != nil {
		return approval.Settled{}, err
	}
	return d.h.Approvals.DecideInWords(ctx, d.caller.Principal, a.ID, words, surface)
}

// turn finds the Turn that a message names. One of another user is not found. A run_id on this wire is always a
// Turn's id, which the server gave out in run_started.
func (d *dispatcher) turn(ctx context.Context, frame *Envelope) (store.Turn, error) {
	if frame.RunID == "" {
		return store.Turn{}, problem.Refuse(problem.InvalidBody, "run_id: required.")
	}
	return d.h.Store.Turn(ctx, d.in, frame.RunID)
}

// cancelTurn asks for the end of a Turn, and gives it as it was. One that is over stays so.
// The cancel itself is asynchronous: the Turn ends when its agent has, and its end comes from the
// log.
func (d *dispatcher) cancelTurn(ctx context.Context, frame *Envelope) (store.Turn, error) {
	done, err := d.h.Queue.Cancel(ctx, d.in, frame.RunID)
	if err == nil && done {
		var task store.Task
		if task, err = d.h.Store.Task(ctx, d.in, frame.RunID); errors.Is(err, store.ErrNotFound) { // with its thread
			err = nil
		}
		frame.SessionID, frame.RequestID = task.ThreadID, cmp.Or(frame.RequestID, task.RequestID)
	}
	if err != nil || done {
		return store.Turn{ID: frame.RunID, Status: store.TurnCancelled}, err
	}
	turn, err := d.turn(ctx, frame)
	if err == nil {
		err = d.locate(ctx, frame, turn.SessionID, turn.ID)
	}
	if err != nil || turn.Status.Terminal() {
		return turn, err
	}
	_, err = d.h.Sessions.Cancels().Cancel(ctx, d.caller.Principal, turn.ID)
	return turn, err
}
