package tools

import "encoding/json"

// Codes of the fault.Errors of tool calls. They are stable. A call that a Decision ended has the Decision's code instead
// (approval.Decision), as expired or asker_gone.
const (
	CodeUnknownTool    = "tool_unknown"
	CodeInvalidArgs    = "invalid_arguments"
	CodeBlocked        = "blocked"
	CodeRejected       = "rejected"
	CodeCancelled      = "cancelled"
	CodeClientOffline  = "client_offline"
	CodeTimeout        = "tool_timeout"
	CodeUnreachable    = "tool_unreachable"
	CodeStatus         = "tool_status"
	CodeToolFailed     = "tool_failed" // the tool of an MCP server reports it itself
	CodeResultTooLarge = "tool_result_too_large"
	CodeRefusedAddress = "tool_address_refused"
	CodeKeyConflict    = "idempotency_key_conflict"
	CodeRunOver        = "run_over"
	CodeUnknownOutcome = "outcome_unknown"
	CodeBusy           = "too_many_tools_running"
	CodeNotApproved    = "not_approved"
	CodeArgsChanged    = "arguments_changed"
	CodeToolChanged    = "tool_changed" // since the call was approved
)

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("tools: " + err.Error()) // types of this package always encode
	}
	return raw
}
