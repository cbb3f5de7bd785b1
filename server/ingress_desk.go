package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// ingressDesk does what one user says on the channel, however it comes.
type ingressDesk struct {
	h      *ingress
	caller auth.Caller
	in     store.Scope // what the caller sees
	// callback: what is said is answered by POSTs of ours, to nobody's connection.
	callback bool
	remote   string // the address it comes from
	// before hears of a session in which something is about to be done; nil for nobody.
	before func(ctx context.Context, s store.Session) error
}

// may counts one action of the caller.
func (d *ingressDesk) may(a actionBrake) error {
	return d.h.in.brakes.take(a, d.caller.Principal, d.remote)
}

// viaIngress is the surface that decisions of this channel come through.
const viaIngress = "ingress"

// invokeFrame is one message of the user's. Its request_id makes it idempotent: it is the
// runId of the Run and the id of the message.
type invokeFrame struct {
	AgentID string      `json:"agent_id" validate:"max=128"`
	Message userMessage `json:"message"`
	// Tools are those that the client can run, as AG-UI declares them.
	Tools []ingressTool `json:"tools" validate:"max=128"`
}

// ingressTool is an agui.Tool with the names of its members, which are read in their exact case.
type ingressTool struct {
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

type userMessage struct {
	Role    string  `json:"role" validate:"omitempty,eq=user"`
	Content rawJSON `json:"content" validate:"required"`
}

// chat takes one message of the user's. What it came to is told from the Reply's Run on.
func (d *ingressDesk) chat(ctx context.Context, frame *ingressFrame, raw []byte) (bridge.Reply, error) {
	var body invokeFrame
	if err := d.h.in.message(raw, &body); err != nil {
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
	if err := d.may(d.h.in.brakes.runs); err != nil {
		return bridge.Reply{}, err
	}
	reply, err := d.h.sessions.Chat(ctx, req)
	if err == nil && (reply.Run.ExternalID != frame.RequestID || reply.Join) {
		err = &channelError{codeMessageNotTaken, "A question of this session is open; it is answered first."}
	}
	return reply, err
}

// chatRequest is the POST that the message would be.
func (d *ingressDesk) chatRequest(frame ingressFrame, body invokeFrame) (bridge.ChatRequest, error) {
	m := agui.Message{ID: frame.RequestID, Role: agui.RoleUser}
	if err := json.Unmarshal(body.Message.Content, &m.Content); err != nil {
		return bridge.ChatRequest{}, refuse(codeInvalidBody, "At /message/content: must be a string or an array of content parts.")
	}
	if m.Content.String() == "" && len(m.Content.Parts) == 0 {
		return bridge.ChatRequest{}, refuse(bridge.RefusedNothingToDo, "The message is empty.")
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

// about finds the session of something that was named, and refuses a run_id that is not the
// thing's.
func (d *ingressDesk) about(ctx context.Context, frame *ingressFrame, sessionID, turnID string) error {
	if frame.RunID != "" && frame.RunID != turnID {
		return store.ErrNotFound
	}
	session, err := d.h.store.Session(ctx, d.in, sessionID)
	if err != nil {
		return err
	}
	frame.RunID, frame.SessionID = turnID, session.ExternalID
	if d.before == nil {
		return nil
	}
	return d.before(ctx, session)
}

// toolResultFrame is what came of a tool the client ran.
type toolResultFrame struct {
	ToolCallID string `json:"tool_call_id" validate:"required,max=128"`
	toolResult
}

func (d *ingressDesk) toolResult(ctx context.Context, frame *ingressFrame, raw []byte) (inbox.Settled, error) {
	var body toolResultFrame
	if err := d.h.in.message(raw, &body); err != nil {
		return inbox.Settled{}, err
	}
	call, err := d.h.store.ToolCall(ctx, d.in, body.ToolCallID)
	if err == nil && call.Kind != store.KindClient {
		err = store.ErrNotFound // a question is decided
	}
	if err == nil {
		err = d.about(ctx, frame, call.SessionID, call.TurnID)
	}
	if err != nil {
		return inbox.Settled{}, err
	}
	if err := d.may(d.h.in.brakes.decisions); err != nil {
		return inbox.Settled{}, err
	}
	return d.h.sessions.ToolResult(ctx, d.caller.Principal, call.ID, body.answer(call.ID))
}

// decisionFrame is a person's decision. Beside the contract's words it takes an option, and
// for an input its value.
type decisionFrame struct {
	ApprovalID string `json:"approval_id" validate:"required,max=128"`
	decisionBody
}

func (d *ingressDesk) decision(ctx context.Context, frame *ingressFrame, raw []byte) (inbox.Settled, error) {
	var body decisionFrame
	if err := d.h.in.message(raw, &body); err != nil {
		return inbox.Settled{}, err
	}
	a, err := approvalFor(ctx, d.h.store, d.h.sessions, d.caller, d.in, body.ApprovalID)
	if err == nil {
		err = d.about(ctx, frame, a.SessionID, a.TurnID)
	}
	if err != nil {
		return inbox.Settled{}, err
	}
	answer, err := body.answer(a)
	if err != nil {
		return inbox.Settled{}, err
	}
	if err := d.may(d.h.in.brakes.decisions); err != nil {
		return inbox.Settled{}, err
	}
	return d.h.sessions.Decide(ctx, d.caller.Principal, a.ID, answer, viaIngress)
}

// turn finds the Turn that a message names.
func (d *ingressDesk) turn(ctx context.Context, frame *ingressFrame) (store.Turn, error) {
	if frame.RunID == "" {
		return store.Turn{}, refuse(codeInvalidBody, "run_id: required.")
	}
	return d.h.store.Turn(ctx, d.in, frame.RunID)
}

// cancelTurn asks for the end of a Turn, and gives it as it was. One that is over stays so.
func (d *ingressDesk) cancelTurn(ctx context.Context, frame *ingressFrame) (store.Turn, error) {
	turn, err := d.turn(ctx, frame)
	if err == nil {
		err = d.about(ctx, frame, turn.SessionID, turn.ID)
	}
	if err != nil || turn.Status.Terminal() {
		return turn, err
	}
	_, err = d.h.sessions.Cancel(ctx, d.caller.Principal, turn.ID)
	return turn, err
}
