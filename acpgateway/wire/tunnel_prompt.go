package wire

import "encoding/json"

// PromptSend gives a run's agent a prompt.
type PromptSend struct {
	RunID               string            `json:"run_id"`
	PromptID            string            `json:"prompt_id"`
	Cwd                 string            `json:"cwd,omitempty"`
	InstanceName        string            `json:"instance_name,omitempty"`
	KeepaliveTTLSeconds int               `json:"keepalive_ttl_seconds,omitempty"`
	SessionID           string            `json:"session_id,omitempty"` // empty: a new one
	Context             string            `json:"context,omitempty"`    // goes before the prompt of a new session
	Prompt              []json.RawMessage `json:"prompt"`
	TimeoutMS           int64             `json:"timeout_ms,omitempty"`
	Traceparent         string            `json:"traceparent,omitempty"` // W3C: goes into _meta of the agent's session/prompt
	Tracestate          string            `json:"tracestate,omitempty"`
	Init                *Init             `json:"init,omitempty"` // used when the agent has to be started again
}

// Type implements Frame.
func (*PromptSend) Type() string { return "prompt_send" }

// PromptResult ends it.
type PromptResult struct {
	RunID                string          `json:"run_id"`
	PromptID             string          `json:"prompt_id"`
	OK                   bool            `json:"ok"`
	Error                string          `json:"error,omitempty"`
	SessionID            string          `json:"session_id,omitempty"`
	StopReason           *string         `json:"stop_reason"`
	SessionCreated       bool            `json:"session_created"`
	SessionRecreatedFrom *string         `json:"session_recreated_from"`
	Usage                json.RawMessage `json:"usage,omitempty"` // only our proxy sends it
}

// Type implements Frame.
func (*PromptResult) Type() string { return "prompt_result" }

// ACPUpdate carries an agent's message, unchanged.
type ACPUpdate struct {
	RunID     string          `json:"run_id"`
	PromptID  *string         `json:"prompt_id"` // nil outside a prompt
	SessionID *string         `json:"session_id"`
	Update    json.RawMessage `json:"update"`
	Replay    bool            `json:"replay,omitempty"` // history, repeated by session/load
}

// Type implements Frame.
func (*ACPUpdate) Type() string { return "acp_update" }
