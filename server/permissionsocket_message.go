package server

import (
	"context"
	"errors"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// The types of messages, as the permission contract has them.
const (
	typePermissionRequest  = "agent_tool_permission_request"
	typePermissionResponse = "agent_tool_permission_response"
	typePermissionDenied   = "agent_tool_permission_denied"
	typeExecutionResult    = "agent_tool_execution_result"
	typeStatus             = "agent_status"
	typeGetStatus          = "get_agent_status"
	typeError              = "error"
)

// permissionMessage is everything that is told.
type permissionMessage struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// requestJSON asks for a permission, or for an input.
type requestJSON struct {
	SessionID      string     `json:"session_id"`
	ExecutionID    string     `json:"execution_id"`
	ToolName       string     `json:"tool_name"`
	Parameters     rawJSON    `json:"parameters"`
	RiskLevel      string     `json:"risk_level"`
	Message        string     `json:"message"`
	Kind           string     `json:"kind"` // permission or input
	RunID          string     `json:"run_id"`
	ArgsSHA256     string     `json:"args_sha256,omitempty"`
	Options        rawJSON    `json:"options,omitempty"`
	ResponseSchema rawJSON    `json:"response_schema,omitempty"`
	ExpiresAt      *time.Time `json:"expires_at,omitempty"`
}

// askedRisk is told where nobody said: what is harmless is not asked.
const askedRisk = "medium"

func (s *permissionSocket) request(q inbox.Question) requestJSON { return requestOf(s.thread, q) }

func requestOf(thread string, q inbox.Question) requestJSON {
	a := q.Approval
	tool := firstOf(a.Tool, q.Call.Name)
	title := a.Title
	if title == tool { // of a tool that we run
		title = ""
	}
	out := requestJSON{
		SessionID: thread, ExecutionID: q.Call.ID, ToolName: tool, Parameters: a.Args,
		RiskLevel: firstOf(a.Risk, askedRisk), Kind: string(a.Kind), RunID: a.TurnID,
		Message:    firstOf(summary(title, nil), "The agent wants to run "+summary(tool, nil)),
		ArgsSHA256: a.ArgsSHA256, Options: a.Options, ResponseSchema: a.ResponseSchema, ExpiresAt: moment(a.ExpiresAt),
	}
	if len(out.Parameters) == 0 {
		out.Parameters = rawJSON("{}")
	}
	return out
}

// executionJSON is what became of what was asked: it may run, it ran, or it was denied.
type executionJSON struct {
	ExecutionID string  `json:"execution_id"`
	ToolName    string  `json:"tool_name"`
	Status      string  `json:"status"`
	Result      rawJSON `json:"result,omitempty"`
	Code        string  `json:"code,omitempty"`
	OptionID    string  `json:"option_id,omitempty"`
	DecidedBy   string  `json:"decided_by,omitempty"`
	DecidedVia  string  `json:"decided_via,omitempty"`
	Reason      string  `json:"reason,omitempty"`
}

func executionOf(q inbox.Question) executionJSON {
	a := q.Approval
	return executionJSON{
		ExecutionID: q.Call.ID, ToolName: firstOf(a.Tool, q.Call.Name), Status: string(a.Status), OptionID: inbox.ChosenOption(q),
		DecidedBy: a.DecidedBy, DecidedVia: a.DecidedVia, Reason: a.Reason,
	}
}

func (s *permissionSocket) tellSettled(q inbox.Question) error { return s.send(settledMessage(q)) }

func settledMessage(q inbox.Question) permissionMessage {
	kind := typePermissionDenied
	if q.Approval.Status == store.ApprovalApproved {
		kind = typeExecutionResult
	}
	return permissionMessage{Type: kind, Data: executionOf(q)}
}

// statusJSON is where the thread's agent stands.
type statusJSON struct {
	SessionID string        `json:"session_id"`
	State     string        `json:"state"` // a Turn's, or IDLE
	RunID     string        `json:"run_id,omitempty"`
	Pending   []requestJSON `json:"pending"`
}

// stateIdle is that of an agent that nobody has asked for anything.
const stateIdle = "IDLE"

// failureJSON is why something was not done, and what stands when it was decided before.
type failureJSON struct {
	Code        string         `json:"code"`
	Message     string         `json:"message"`
	ExecutionID string         `json:"execution_id,omitempty"`
	Decision    *executionJSON `json:"decision,omitempty"`
}

func (s *permissionSocket) say(kind string, data any) error {
	return s.send(permissionMessage{Type: kind, Data: data})
}

func (s *permissionSocket) fail(executionID string, err error) {
	out := failureJSON{ExecutionID: executionID}
	out.Code, out.Message = channelProblem(s.h.log, s.c, err)
	_ = s.say(typeError, out) // the line ends by itself when it cannot be sent
}

// permissionFrame is everything a page may say.
type permissionFrame struct {
	Type string             `json:"type" validate:"required"`
	Data permissionResponse `json:"data"`
}

// permissionResponse answers. Beside the contract's words it takes an option of those that
// were offered, the arguments as they shall be instead, and for an input its value.
type permissionResponse struct {
	ExecutionID string  `json:"execution_id" validate:"max=128"`
	Approved    *bool   `json:"approved"`
	OptionID    string  `json:"option_id" validate:"max=256"`
	Payload     rawJSON `json:"payload"`
	edited
	Reason string `json:"reason" validate:"max=2000"`
}

func (s *permissionSocket) hear(raw []byte) {
	var frame permissionFrame
	err := s.h.in.message(raw, &frame)
	if err == nil {
		switch frame.Type {
		case typePermissionResponse:
			err = s.respond(frame.Data)
		case typeGetStatus:
			err = s.status()
		default:
			err = &channelError{codeUnknownType, "There is no message of that type."}
		}
	}
	if err != nil {
		s.fail(frame.Data.ExecutionID, err)
	}
}

// respond settles a question. What it leads to is told to every page by the watch.
func (s *permissionSocket) respond(r permissionResponse) error {
	if s.others.shows(r.ExecutionID) {
		return s.others.respond(r)
	}
	session, err := s.session(s.ctx)
	if err != nil {
		return err
	}
	a, err := approvalFor(s.ctx, s.h.store, s.h.sessions, s.caller, s.in, r.ExecutionID)
	if err != nil {
		return err
	}
	if a.SessionID != session.ID {
		return store.ErrNotFound
	}
	reply, err := s.h.decide(s.ctx, s.caller, s.remote(), a, r)
	if err == nil && reply != nil {
		err = s.send(*reply)
	}
	return err
}

// decide settles a question. The reply is what only the page that decided is sent: that the same
// was decided before, or otherwise.
func (h *permissionSockets) decide(ctx context.Context, caller auth.Caller, remote string, a store.Approval, r permissionResponse) (*permissionMessage, error) {
	// The socket may have been opened long ago; its end may come seconds after the revocation.
	if err := h.auth.Confirm(ctx, caller); err != nil {
		return nil, err
	}
	body := decisionBody{Approved: r.Approved, OptionID: r.OptionID, Payload: r.Payload, edited: r.edited, Reason: r.Reason}
	if err := h.in.check(body, codeInvalidBody); err != nil {
		return nil, err
	}
	answer, err := body.answer(a)
	if err != nil {
		return nil, err
	}
	if err := h.in.brakes.take(h.in.brakes.decisions, caller.Principal, remote); err != nil {
		return nil, err
	}
	settled, err := h.sessions.Decide(ctx, caller.Principal, a.ID, answer, viaPermissions)
	var refusal *bridge.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided:
		decision := executionOf(settled.Question)
		return &permissionMessage{Type: typeError, Data: failureJSON{
			Code: refusal.Code, Message: refusal.Message, ExecutionID: a.ID, Decision: &decision,
		}}, nil
	case err == nil && settled.Repeated:
		reply := settledMessage(settled.Question)
		return &reply, nil
	}
	return nil, err
}

func (s *permissionSocket) status() error {
	out := statusJSON{SessionID: s.thread, State: stateIdle, Pending: []requestJSON{}}
	session, err := s.session(s.ctx)
	if errors.Is(err, store.ErrNotFound) {
		if out.Pending = s.others.open(); len(out.Pending) > 0 {
			out.State = wireState(store.TurnPausedApproval)
		}
		return s.say(typeStatus, out) // there is none yet, or it is somebody else's
	}
	if err != nil {
		return err
	}
	switch turn, err := s.h.store.ActiveTurn(s.ctx, s.in, session.ID); {
	case err == nil:
		out.State, out.RunID = wireState(turn.Status), turn.ID
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	open, err := s.h.asked(s.ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	for _, q := range open {
		out.Pending = append(out.Pending, s.request(q))
	}
	return s.say(typeStatus, out)
}
