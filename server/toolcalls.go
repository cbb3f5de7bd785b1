// Results of tools that a frontend ran. A chat client posts them with its next message; this route is for pages that
// keep their stream open, and for programs without a chat.

package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
)

// toolCalls is POST /api/tool_calls/{id}/result: a frontend that ran a tool for an agent posts the result, apart from
// the chat. The shape of the body is the contract's tool_result: {"ok":true,"result":…} or {"ok":false,"error":…}.
type toolCalls struct {
	approvals *approval.Service
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
	settled, err := h.approvals.ToolResult(ctx, auth.From(ctx).Principal, id, body.Answer(id))
	out := answer.ToolCallOf(settled)
	if fault.CodeOf(err) == approval.AlreadyDecided {
		p := problem.Of(err)
		p.ToolCall = &out
		return p
	}
	return reply(c, http.StatusOK, out, err)
}
