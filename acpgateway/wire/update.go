package wire

import "encoding/json"

// The variants of session/update (ACP v1, with those still unstable), and the two that
// proxies make up out of responses.
const (
	UserMessageChunk       = "user_message_chunk"
	AgentMessageChunk      = "agent_message_chunk"
	AgentThoughtChunk      = "agent_thought_chunk"
	ToolCallNew            = "tool_call"
	ToolCallUpdate         = "tool_call_update"
	PlanWhole              = "plan"
	PlanUpdate             = "plan_update"
	PlanRemoved            = "plan_removed"
	AvailableCommands      = "available_commands_update"
	CurrentMode            = "current_mode_update"
	ConfigOptions          = "config_option_update"
	SessionInfo            = "session_info_update"
	Usage                  = "usage_update"
	Notice                 = "notice"
	CompactionUpdate       = "compaction_update"
	CompactionSummaryChunk = "compaction_summary_chunk"
	SubagentUpdate         = "subagent_update"
	SessionMessage         = "session_message"
	SessionMessageChunk    = "session_message_chunk"
	SessionCreated         = "session_created"
	SessionState           = "session_state"
)

// Variants lists every variant this package has a name for.
func Variants() []string {
	return []string{
		UserMessageChunk, AgentMessageChunk, AgentThoughtChunk, ToolCallNew, ToolCallUpdate,
		PlanWhole, PlanUpdate, PlanRemoved, AvailableCommands, CurrentMode, ConfigOptions, SessionInfo,
		Usage, Notice, CompactionUpdate, CompactionSummaryChunk, SubagentUpdate, SessionMessage,
		SessionMessageChunk, SessionCreated, SessionState,
	}
}

// Update is one session/update as it came, looked at no further than its variant and
// what a chunk has: chunks are nearly all of the traffic. The views of the other
// variants read Raw when they are asked for.
type Update struct {
	Variant   string // as the agent calls it, known or not; "" when it does not say
	MessageID string // chunks only; many agents give none
	Content   Block  // chunks only
	Raw       json.RawMessage
}

// ReadUpdate reads the update member of a session/update. It does not fail: what is no
// object is an Update without a variant.
func ReadUpdate(raw json.RawMessage) Update {
	var wire struct {
		SessionUpdate lax[string]     `json:"sessionUpdate"`
		MessageID     lax[string]     `json:"messageId"`
		Content       json.RawMessage `json:"content"`
	}
	u := Update{Raw: raw}
	if json.Unmarshal(raw, &wire) != nil {
		return u
	}
	u.Variant, u.MessageID, u.Content = wire.SessionUpdate.Val, wire.MessageID.Val, ReadBlock(wire.Content)
	switch u.Content.Type {
	case SessionCreated, SessionState:
		// Proxies say these in the content; sessionUpdate may be anything, or absent.
		u.Variant = u.Content.Type
	}
	return u
}
