// The messages of the permission sockets, in the words of the permission contract.

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/problem"
	"aqueduct/server/wsconn"
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

// permissionMessage is everything that the server sends on these sockets. For example
// {"type":"agent_status","data":{…}}.
type permissionMessage struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// requestJSON asks for a permission, or for an input. execution_id is the id of the tool call, which every later
// message about it repeats. Options are those of an agent that offers some; without them approve and reject are all
// there is.
type requestJSON struct {
	SessionID   string          `json:"session_id"`
	ExecutionID string          `json:"execution_id"`
	ToolName    string          `json:"tool_name"`
	Parameters  json.RawMessage `json:"parameters"`
	approval.Shown
	// The contract wants a level and a sentence for people; agents need not give either.
	RiskLevel      string          `json:"risk_level"`
	Message        string          `json:"message"`
	Kind           string          `json:"kind"` // permission or input
	RunID          string          `json:"run_id"`
	ArgsSHA256     string          `json:"args_sha256,omitempty"`
	Options        json.RawMessage `json:"options,omitempty"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
}

// askedRisk is the risk of a question without one: harmless calls are not asked about. Clients that colour by risk
// always find one.
const askedRisk = "medium"

// requestOf is the message for a question in the thread of that name. The agent's title goes to people only when it
// adds something to the tool's name, and Summary makes it safe to show.
func requestOf(thread string, q approval.Question) requestJSON {
	a := q.Approval
	tool := cmp.Or(a.Tool, q.Call.Name)
	title := a.Title
	if title == tool { // of a tool that we run
		title = ""
	}
	out := requestJSON{
		SessionID: thread, ExecutionID: q.Call.ID, ToolName: tool, Parameters: a.Args, Shown: approval.ShownOf(a),
		RiskLevel: cmp.Or(a.Risk, askedRisk), Kind: string(a.Kind), RunID: a.TurnID,
		Message:    cmp.Or(channel.Summary(title, nil), "The agent wants to run "+channel.Summary(tool, nil)),
		ArgsSHA256: a.ArgsSHA256, Options: a.Options, ResponseSchema: a.ResponseSchema, ExpiresAt: answer.TimeOrNil(a.ExpiresAt),
	}
	if len(out.Parameters) == 0 {
		out.Parameters = json.RawMessage("{}")
	}
	return out
}

// executionJSON is what became of what was asked: it may run, it ran, or it was denied. Members that do not apply are
// left out. status is one of the approval's (APPROVED, REJECTED, …) for a decision, and one of the call's for its
// result.
type executionJSON struct {
	ExecutionID string          `json:"execution_id"`
	ToolName    string          `json:"tool_name"`
	Status      string          `json:"status"`
	Result      json.RawMessage `json:"result,omitempty"`
	Code        string          `json:"code,omitempty"`
	OptionID    string          `json:"option_id,omitempty"`
	DecidedBy   string          `json:"decided_by,omitempty"`
	DecidedVia  string          `json:"decided_via,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// executionOf is a settled question: its decision, by whom, and on which surface.
func executionOf(q approval.Question) executionJSON {
	a := q.Approval
	return executionJSON{
		ExecutionID: q.Call.ID, ToolName: cmp.Or(a.Tool, q.Call.Name), Status: string(a.Status), OptionID: approval.ChosenOption(q),
		DecidedBy: a.DecidedBy, DecidedVia: a.DecidedVia, Reason: a.Reason,
	}
}

// settledMessage shows how a question ended. The contract has one type for approved calls and one for everything
// else, so expired and cancelled ones are denied.
func settledMessage(q approval.Question) permissionMessage {
	kind := typePermissionDenied
	if q.Approval.Status == store.ApprovalApproved {
		kind = typeExecutionResult
	}
	return permissionMessage{Type: kind, Data: executionOf(q)}
}

// statusJSON is where the thread's agent stands. It answers get_agent_status and is never sent by itself.
type statusJSON struct {
	SessionID string        `json:"session_id"`
	State     string        `json:"state"` // a Turn's, or IDLE
	RunID     string        `json:"run_id,omitempty"`
	Pending   []requestJSON `json:"pending"`
}

// stateIdle is that of an agent without a Turn.
const stateIdle = "IDLE"

// failureJSON is why something was not done, and what stands when it was decided before. execution_id is empty where
// the message could not even be read.
type failureJSON struct {
	Code        string         `json:"code"`
	Message     string         `json:"message"`
	ExecutionID string         `json:"execution_id,omitempty"`
	Decision    *executionJSON `json:"decision,omitempty"`
}

// send sends one message of a type.
func (s *permissionSocket) send(kind string, data any) error {
	return s.Send(permissionMessage{Type: kind, Data: data})
}

// permissionFrame is everything a page may say. data of get_agent_status is empty.
type permissionFrame struct {
	Type string             `json:"type" validate:"required"`
	Data permissionResponse `json:"data"`
}

// permissionResponse answers. Beside the contract's words it takes an option of those that were offered, the
// arguments as they shall be instead, and for an input its value. For example {"execution_id":"…","approved":true},
// or with "option_id" in place of "approved".
type permissionResponse struct {
	ExecutionID string          `json:"execution_id" validate:"max=128"`
	Approved    *bool           `json:"approved"`
	OptionID    string          `json:"option_id" validate:"max=256"`
	Payload     json.RawMessage `json:"payload"`
	answer.EditedArgs
	Reason string `json:"reason" validate:"max=2000"`
}

// respond settles a question. The watch sends its effect to every page. A question that the page was shown through
// the inbox is settled there: it is of another user's thread and not in the caller's own scope.
func (s *permissionSocket) respond(r permissionResponse) error {
	if s.others.shows(r.ExecutionID) {
		return s.others.respond(r)
	}
	session, err := s.session(s.Ctx)
	if err != nil {
		return err
	}
	a, err := answer.FindApproval(s.Ctx, s.h.store, s.h.approvals, s.caller, s.in, r.ExecutionID)
	if err != nil {
		return err
	}
	// The scope is all of the caller's threads, and this socket is for one.
	if a.SessionID != session.ID {
		return store.ErrNotFound
	}
	return s.h.decide(s.Conn, s.caller, a, r)
}

// decide settles a question. Only the page that decided gets a message from here, when the same was decided before,
// or otherwise; the effect of a first decision reaches every page by its watch. The order is: is the credential still
// good, is the answer well-formed, is it within the limit; only then is anything written.
func (h *permissionSockets) decide(conn *wsconn.Conn, caller auth.Caller, a store.Approval, r permissionResponse) error {
	ctx := conn.Ctx
	// The socket may have been opened long ago; its end may come seconds after the revocation.
	if err := h.auth.Confirm(ctx, caller); err != nil {
		return err
	}
	body := answer.Decision{Approved: r.Approved, OptionID: r.OptionID, Payload: r.Payload, EditedArgs: r.EditedArgs, Reason: r.Reason}
	if err := h.in.Check(body, problem.InvalidBody); err != nil {
		return err
	}
	words, err := body.Words()
	if err != nil {
		return err
	}
	if err := h.in.Brakes.Take(h.in.Brakes.Decisions, caller.Principal, conn.Remote()); err != nil {
		return err
	}
	settled, err := h.approvals.DecideInWords(ctx, caller.Principal, a.ID, words, viaPermissions)
	var refusal *fault.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code == approval.AlreadyDecided:
		decision := executionOf(settled.Question)
		return conn.Send(permissionMessage{Type: typeError, Data: failureJSON{
			Code: refusal.Code, Message: refusal.Message, ExecutionID: a.ID, Decision: &decision,
		}})
	case err == nil && settled.Repeated:
		return conn.Send(settledMessage(settled.Question))
	}
	return err
}

// status answers get_agent_status: the state of the thread's Turn and its open questions. A thread without a Turn, or
// one that is not there, is idle.
func (s *permissionSocket) status() error {
	out := statusJSON{SessionID: s.thread, State: stateIdle, Pending: []requestJSON{}}
	session, err := s.session(s.Ctx)
	if errors.Is(err, store.ErrNotFound) {
		if out.Pending = s.others.open(); len(out.Pending) > 0 {
			out.State = channel.WireState(store.TurnPausedApproval)
		}
		return s.send(typeStatus, out) // there is none yet, or it is another user's
	}
	if err != nil {
		return err
	}
	switch turn, err := s.h.store.ActiveTurn(s.Ctx, s.in, session.ID); {
	case err == nil:
		out.State, out.RunID = channel.WireState(turn.Status), turn.ID
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	open, err := s.h.asked(s.Ctx, s.in, session.ID)
	if err != nil {
		return err
	}
	for _, q := range open {
		out.Pending = append(out.Pending, requestOf(s.thread, q))
	}
	return s.send(typeStatus, out)
}
