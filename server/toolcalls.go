package server

import (
	"encoding/json"
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

// toolResult is the contract's tool_result: ok with a result, or an error, which may be any
// value.
type toolResult struct {
	OK     *bool   `json:"ok"`
	Result rawJSON `json:"result"`
	Error  rawJSON `json:"error" validate:"max=65536"`
}

func (r toolResult) answer(id string) inbox.Answer {
	a := inbox.Answer{QuestionID: id, Payload: r.Result}
	if there(r.Error) {
		a.Error = string(r.Error)
		_ = json.Unmarshal(r.Error, &a.Error) // what is no text stays as it is
	}
	if r.OK != nil && !*r.OK {
		a.Error = firstOf(a.Error, "the tool failed")
	}
	if len(a.Payload) == 0 {
		a.Payload = rawJSON("null")
	}
	return a
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
	var body toolResult
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	if len(body.Result) == 0 && len(body.Error) == 0 {
		return refuse(codeInvalidBody, "result or error: required.")
	}
	ctx := c.Request().Context()
	if err := h.in.mayDecide(c, auth.From(ctx).Principal); err != nil {
		return err
	}
	settled, err := h.sessions.ToolResult(ctx, auth.From(ctx).Principal, id, body.answer(id))
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
