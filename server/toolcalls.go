// Results of tools that a frontend ran. A chat client posts them with its next message; this route is for pages that
// keep their stream open, and for programs without a chat.

package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// toolCalls is POST /api/tool_calls/{id}/result: a frontend that ran a tool for an agent posts the result, apart from
// the chat. The shape of the body is the contract's tool_result: {"ok":true,"result":…} or {"ok":false,"error":…}.
type toolCalls struct {
	approvals *approval.Service
	sessions  *bridge.Sessions
	store     store.Store
	in        *decode.Decoder
}

// Mount adds the route, for users: the tool ran in a client of theirs.
func (h *toolCalls) Mount(to *route.Routes) {
	to.Callers(http.MethodPost, "/api/tool_calls/:id/result", withID("id", h.result))
}

// result settles a client tool call. The first result wins; a repeated one is answered like the first, and a different one
// gets a conflict that holds the call as it was settled. Results count against the limit on decisions, because each is a
// transaction on the Session.
func (h *toolCalls) result(c echo.Context, id string) error {
	var body answer.ToolResult
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	if len(body.Result) == 0 && len(body.Error) == 0 {
		return problem.Refuse(problem.InvalidBody, "result or error: required.")
	}
	ctx := c.Request().Context()
	if err := h.in.MayDecide(c, auth.From(ctx).Principal); err != nil {
		return err
	}
	// A call that an agent's last Run left open is not a Question: its result begins a Turn, as from a chat client.
	if _, err := h.store.ToolCall(ctx, store.System(), id); errors.Is(err, store.ErrNotFound) {
		if open, err := h.openCall(ctx, body.Answer(id)); open != nil || err != nil {
			return openCallReply(c, open, err)
		}
	}
	settled, err := h.approvals.ToolResult(ctx, auth.From(ctx).Principal, id, body.Answer(id))
	out := answer.ToolCallOf(settled)
	if fault.CodeOf(err) == approval.AlreadyDecided {
		p := problem.Of(err)
		p.ToolCall = &out
		return p
	}
	return reply(c, http.StatusOK, out, err)
}

// openCall answers a call that is not a Question. It returns nil if the caller's most recently used threads have no such
// call. The client reads the new Turn on another response. So the next message does not cancel it as a Turn that no client
// reads.
func (h *toolCalls) openCall(ctx context.Context, given approval.Answer) (*bridge.AnsweredCall, error) {
	reply, err := h.sessions.Chat(ctx, bridge.ChatRequest{
		Principal: auth.From(ctx).Principal, Dialect: bridge.DialectV1, Answers: []approval.Answer{given}, Channel: true,
	})
	if fault.CodeOf(err) == bridge.RefusedNothingToDo || err == nil && len(reply.Answered) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open := reply.Answered[0]
	if !open.Repeated {
		open.TurnID = cmp.Or(reply.Run.TurnID, open.TurnID)
	}
	return &open, nil
}

// openCallReply returns the reply for a call that was not a Question, in the same shape as for Questions.
func openCallReply(c echo.Context, open *bridge.AnsweredCall, err error) error {
	if err != nil {
		return err
	}
	out := answer.ToolCall{ToolCallID: open.ID, RunID: open.TurnID, ToolName: open.Name, Status: string(store.ToolSucceeded), Won: !open.Repeated, Repeated: open.Repeated && !open.Differs}
	if open.Failed {
		out.Status = string(store.ToolFailed)
	}
	if open.Differs {
		p := problem.Of(fault.New(approval.AlreadyDecided, "This call has its result already."))
		p.ToolCall = &out
		return p
	}
	return reply(c, http.StatusOK, out, nil)
}
