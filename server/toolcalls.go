package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
)

// toolCalls is POST /api/tool_calls/{id}/result: a frontend that ran a tool for an agent
// tells what came of it, apart from the chat.
type toolCalls struct {
	sessions *bridge.Sessions
	in       *intake
}

func (h *toolCalls) mount(to *routes) {
	to.callers(http.MethodPost, "/api/tool_calls/:id/result", h.result)
}

// resultBody is the contract's tool_result: ok with a result, or an error.
type resultBody struct {
	OK     *bool   `json:"ok"`
	Result rawJSON `json:"result" validate:"required_without=Error"`
	Error  string  `json:"error" validate:"max=65536"`
}

type toolCallJSON struct {
	ToolCallID string  `json:"tool_call_id"`
	RunID      string  `json:"run_id"` // the contract's run: our Turn
	ToolName   string  `json:"tool_name"`
	Status     string  `json:"status"`
	Result     rawJSON `json:"result,omitempty"`
	ErrorCode  string  `json:"error_code,omitempty"`
	Won        bool    `json:"won"`
	Repeated   bool    `json:"repeated"`
}

func (h *toolCalls) result(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	var body resultBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	answer := inbox.Answer{QuestionID: id, Payload: body.Result, Error: body.Error}
	if body.OK != nil && !*body.OK {
		answer.Error = firstOf(body.Error, "the tool failed")
	}
	ctx := c.Request().Context()
	settled, err := h.sessions.ToolResult(ctx, auth.From(ctx).Principal, id, answer)
	out := toolCallOut(settled)
	var refusal *bridge.Refusal
	if errors.As(err, &refusal) && refusal.Code == bridge.RefusedDecided {
		p := refuse(refusal.Code, refusal.Message)
		p.ToolCall = &out
		return p
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

func toolCallOut(s inbox.Settled) toolCallJSON {
	call := s.Question.Call
	return toolCallJSON{
		ToolCallID: call.ID, RunID: call.TurnID, ToolName: call.Name, Status: string(call.Status),
		Result: call.Result, ErrorCode: call.ErrorCode, Won: s.Won, Repeated: s.Repeated,
	}
}
