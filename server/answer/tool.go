package answer

import (
	"cmp"
	"encoding/json"

	"aqueduct/bridge/approval"
	"aqueduct/internal/strictjson"
)

// ToolResult is the contract's tool_result: ok with a result, or an error, which may be any
// value.
type ToolResult struct {
	OK     *bool           `json:"ok"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error" validate:"max=65536"`
}

// Answer is the result as an Answer to the tool call id. A result that is missing becomes null, since a call that
// succeeded must have one.
func (r ToolResult) Answer(id string) approval.Answer {
	a := approval.Answer{QuestionID: id, Payload: r.Result}
	if strictjson.IsSet(r.Error) {
		a.Error = string(r.Error)
		_ = json.Unmarshal(r.Error, &a.Error) // what is no text stays as it is
	}
	if r.OK != nil && !*r.OK {
		a.Error = cmp.Or(a.Error, "the tool failed")
	}
	if len(a.Payload) == 0 {
		a.Payload = json.RawMessage("null")
	}
	return a
}

// ToolCall is the JSON of a tool call whose result was posted.
type ToolCall struct {
	ToolCallID string          `json:"tool_call_id"`
	RunID      string          `json:"run_id"` // the contract's run: our Turn
	ToolName   string          `json:"tool_name"`
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result,omitempty"`
	ErrorCode  string          `json:"error_code,omitempty"`
	Won        bool            `json:"won"`
	Repeated   bool            `json:"repeated"`
}

// ToolCallOf is the JSON of a tool call after an answer to it was applied.
func ToolCallOf(s approval.Settled) ToolCall {
	call := s.Question.Call
	return ToolCall{
		ToolCallID: call.ID, RunID: call.TurnID, ToolName: call.Name, Status: string(call.Status),
		Result: call.Result, ErrorCode: call.ErrorCode, Won: s.Won, Repeated: s.Repeated,
	}
}
