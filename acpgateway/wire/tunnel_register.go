package wire

import "encoding/json"

// RegisterAgent is a proxy's first message.
type RegisterAgent struct {
	Agent ProxyInfo `json:"agent"`
}

// ProxyInfo is who it is.
type ProxyInfo struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Capabilities  json.RawMessage `json:"capabilities,omitempty"`
	MaxConcurrent int             `json:"max_concurrent,omitempty"`
	// Installation stays the same when the proxy is started again, and differs from that of any other proxy. Of two that
	// register under one id it tells the one that comes back from a stranger.
	Installation string `json:"installation,omitempty"`
	// Runs are the agents that live in the proxy now, so that the gateway sees after a cut
	// which of its prompts have arrived.
	Runs []RunInfo `json:"runs,omitempty"`
	// Behind tells where the numbers of a proxy that counts stand: of each run, what comes
	// begins after it.
	Behind map[string]int64 `json:"behind,omitempty"`
}

// RunInfo is one of them.
type RunInfo struct {
	RunID     string   `json:"run_id"`
	SessionID string   `json:"session_id,omitempty"`
	Running   bool     `json:"running"`              // its agent process lives
	PromptIDs []string `json:"prompt_ids,omitempty"` // under way first, then waiting
}

// Offers are the extensions to the contract that an end has. A proxy writes them into its
// capabilities, the gateway into register_ack; one is in use when both have it.
type Offers struct {
	// Seq: frames are counted, acknowledged, and sent again after a cut.
	Seq bool `json:"seq,omitempty"`
	// PermissionCancelled: an agent that withdraws its question is reported by
	// proxy_update permission_cancelled.
	PermissionCancelled bool `json:"permission_cancelled,omitempty"`
	// Elicitation: an agent's request for input is passed on by proxy_update elicitation_request,
	// and answered by session_elicitation.
	Elicitation bool `json:"elicitation,omitempty"`
	// MarksReplay: every update that session/load repeats has replay:true, so that one without
	// it is new. Of use in a proxy's capabilities only.
	MarksReplay bool `json:"replay_marked,omitempty"`
	// Epoch is new at every start of the sender; its numbers begin again then.
	Epoch string `json:"epoch,omitempty"`
}

// Offers reads what the proxy announced.
func (p ProxyInfo) Offers() Offers {
	var o Offers
	if json.Unmarshal(p.Capabilities, &o) != nil {
		return Offers{} // an old proxy's capabilities may be anything
	}
	return o
}

// Type implements Frame.
func (*RegisterAgent) Type() string { return "register_agent" }

// RegisterAck answers it.
type RegisterAck struct {
	Success bool `json:"success"`
	Offers
}

// Type implements Frame.
func (*RegisterAck) Type() string { return "register_ack" }

// Heartbeat is a proxy's sign of life.
type Heartbeat struct {
	AgentID   string          `json:"agent_id"`
	Timestamp json.RawMessage `json:"timestamp,omitempty"` // a text or a number, by who wrote the proxy
}

// Type implements Frame.
func (*Heartbeat) Type() string { return "heartbeat" }
