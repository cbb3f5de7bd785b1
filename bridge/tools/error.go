package tools

import "encoding/json"

// Error is why a ToolCall failed or was not taken, with a stable code, in words an agent may
// read.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Codes of Errors.
const (
	CodeUnknownTool    = "tool_unknown"
	CodeInvalidArgs    = "invalid_arguments"
	CodeBlocked        = "blocked"
	CodeRejected       = "rejected"
	CodeExpired        = "expired"
	CodeCancelled      = "cancelled"
	CodeClientOffline  = "client_offline"
	CodeTimeout        = "tool_timeout"
	CodeUnreachable    = "tool_unreachable"
	CodeStatus         = "tool_status"
	CodeResultTooLarge = "tool_result_too_large"
	CodeRefusedAddress = "tool_address_refused"
	CodeKeyConflict    = "idempotency_key_conflict"
	CodeRunOver        = "run_over"
	CodeUnknownOutcome = "outcome_unknown"
	CodeBusy           = "too_many_tools_running"
	CodeNotApproved    = "not_approved"
	CodeArgsChanged    = "arguments_changed"
)

func (e *Error) json() []byte { return mustJSON(e) }

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("tools: " + err.Error()) // our own types always can be written
	}
	return raw
}
