package wire

import (
	"bytes"
	"encoding/json"
)

// Open asks for an agent that is initialized and waits for a prompt.
type Open struct {
	RunID               string `json:"run_id"`
	Cwd                 string `json:"cwd,omitempty"`
	InstanceName        string `json:"instance_name,omitempty"`
	KeepaliveTTLSeconds int    `json:"keepalive_ttl_seconds,omitempty"`
	Init                *Init  `json:"init,omitempty"`
}

// Type implements Frame.
func (*Open) Type() string { return "acp_open" }

// Init prepares a workspace before the agent starts.
type Init struct {
	Script         string            `json:"script"`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	// AgentInputs is needed by the old proxy even when there is nothing in it.
	AgentInputs *AgentInputs `json:"agentInputs,omitempty"`
	// MCPServers are for the agent's sessions (session/new); a proxy that does not know them leaves them out.
	MCPServers []MCPServer `json:"mcp_servers,omitempty"`
}

// MCPServer is one that an agent reaches by HTTP, as ACP has it.
type MCPServer struct {
	Type    string       `json:"type"` // http
	Name    string       `json:"name"`
	URL     string       `json:"url"`
	Headers []HTTPHeader `json:"headers"`
}

// HTTPHeader is a header of each request to a server.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AgentInputs are files that the agent shall find.
type AgentInputs struct {
	Version  int               `json:"version"`
	Items    []AgentInput      `json:"items"`
	EnvPatch map[string]string `json:"envPatch,omitempty"`
}

// AgentInput is one of them. Apply is writeFile, copy, bindMount or downloadExtract.
type AgentInput struct {
	ID     string      `json:"id"`
	Apply  string      `json:"apply"`
	Access string      `json:"access,omitempty"`
	Source InputSource `json:"source"`
	Target InputTarget `json:"target"`
}

// InputSource is where it comes from: hostPath, httpZip or inlineText.
type InputSource struct {
	Type        string `json:"type"`
	Path        string `json:"path,omitempty"`
	URI         string `json:"uri,omitempty"`
	ContentHash string `json:"contentHash,omitempty"`
	Text        string `json:"text,omitempty"`
}

// InputTarget is where it goes, below WORKSPACE or USER_HOME.
type InputTarget struct {
	Root string `json:"root"`
	Path string `json:"path"`
}

// Opened answers acp_open.
type Opened struct {
	RunID string `json:"run_id"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Agent is the agent's answer to initialize. Only our proxy sends it.
	Agent json.RawMessage `json:"agent,omitempty"`
	// The whole message as it came: other proxies state elsewhere what their agent can do.
	Said json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the message beside its members.
func (o *Opened) UnmarshalJSON(data []byte) error {
	type plain Opened
	if err := json.Unmarshal(data, (*plain)(o)); err != nil {
		return err
	}
	o.Said = bytes.Clone(data)
	return nil
}

// Type implements Frame.
func (*Opened) Type() string { return "acp_opened" }

// Close ends a run's agent.
type Close struct {
	RunID string `json:"run_id"`
}

// Type implements Frame.
func (*Close) Type() string { return "acp_close" }

// Closed answers it.
type Closed struct {
	RunID string `json:"run_id"`
	OK    bool   `json:"ok"`
}

// Type implements Frame.
func (*Closed) Type() string { return "acp_closed" }

// Exit reports that a run's agent process has ended.
type Exit struct {
	RunID        string  `json:"run_id"`
	InstanceName string  `json:"instance_name"`
	Code         *int    `json:"code"`
	Signal       *string `json:"signal"`
}

// Type implements Frame.
func (*Exit) Type() string { return "acp_exit" }
