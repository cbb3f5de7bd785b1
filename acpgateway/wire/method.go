package wire

import (
	"bytes"
	"encoding/json"
)

// Version is the only version of ACP spoken here; 2 is a draft.
const Version = 1

// Methods an agent answers, and the notifications it takes.
const (
	MethodInitialize      = "initialize"
	MethodAuthenticate    = "authenticate"
	MethodNew             = "session/new"
	MethodLoad            = "session/load"
	MethodResume          = "session/resume"
	MethodPrompt          = "session/prompt"
	MethodSetMode         = "session/set_mode"
	MethodSetModel        = "session/set_model" // gone from the protocol; some agents still have it
	MethodSetConfigOption = "session/set_config_option"
	MethodCancel          = "session/cancel"
)

// Methods a client answers, and the notifications it takes.
const (
	MethodUpdate            = "session/update"
	MethodRequestPermission = "session/request_permission"
	MethodReadTextFile      = "fs/read_text_file"
	MethodWriteTextFile     = "fs/write_text_file"
	MethodTerminalCreate    = "terminal/create"
	MethodTerminalOutput    = "terminal/output"
	MethodTerminalWait      = "terminal/wait_for_exit"
	MethodTerminalKill      = "terminal/kill"
	MethodTerminalRelease   = "terminal/release"
)

// MethodCancelRequest withdraws a request, in either direction.
const MethodCancelRequest = "$/cancel_request"

// InitializeParams opens a connection.
type InitializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities"`
	ClientInfo         Implementation     `json:"clientInfo"`
}

// ClientCapabilities are what an agent may ask of us.
type ClientCapabilities struct {
	FS       FileCapabilities `json:"fs"`
	Terminal bool             `json:"terminal"`
	// Elicitation is nil where no person could be asked for input.
	Elicitation *ElicitationCapabilities `json:"elicitation,omitempty"`
	Meta        *ClientMeta              `json:"_meta,omitempty"`
}

// ClientMeta are capabilities beside the protocol that agents look for.
type ClientMeta struct {
	// TerminalOutputDelta: the output of commands an agent runs itself is taken piece by piece, as
	// codex sends it.
	TerminalOutputDelta bool `json:"terminal_output_delta"`
}

// FileCapabilities are those of fs/*.
type FileCapabilities struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
}

// Implementation names a program.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"` // required by the schema; opencode insists
}

// InitializeResult is what an agent is and can.
type InitializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	AgentInfo         Implementation    `json:"agentInfo"`
}

// AgentCapabilities are an agent's.
type AgentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  PromptCapabilities  `json:"promptCapabilities"`
	SessionCapabilities SessionCapabilities `json:"sessionCapabilities"`
	MCPCapabilities     MCPCapabilities     `json:"mcpCapabilities"`
}

// MCPCapabilities are the ways to MCP servers that an agent has beside standard streams.
type MCPCapabilities struct {
	HTTP Capability `json:"http"`
}

// UnmarshalJSON takes what it understands, as that of SessionCapabilities.
func (m *MCPCapabilities) UnmarshalJSON(data []byte) error {
	var wire struct {
		HTTP Capability `json:"http"`
	}
	_ = json.Unmarshal(data, &wire) // of another form: none is offered
	*m = MCPCapabilities{HTTP: wire.HTTP}
	return nil
}

// SessionCapabilities are methods of sessions that an agent has beside those that all have.
type SessionCapabilities struct {
	Resume Capability `json:"resume"`
}

// UnmarshalJSON takes what it understands: what an agent states about a session's methods must not
// cost the rest of its answer.
func (s *SessionCapabilities) UnmarshalJSON(data []byte) error {
	var wire struct {
		Resume Capability `json:"resume"`
	}
	_ = json.Unmarshal(data, &wire) // of another form: none is offered
	*s = SessionCapabilities{Resume: wire.Resume}
	return nil
}

// Capability is one that is offered by an object, which may be empty.
type Capability json.RawMessage

// UnmarshalJSON keeps it as it came.
func (c *Capability) UnmarshalJSON(data []byte) error {
	*c = append((*c)[:0], data...)
	return nil
}

// Offered reports whether it is there. Some agents write true for an object.
func (c Capability) Offered() bool {
	text := string(bytes.TrimSpace(c))
	return text != "" && text != "null" && text != "false"
}

// PromptCapabilities are the kinds of content a prompt may hold beside text and links.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

// Takes reports whether a prompt may hold a content block of this type.
func (c PromptCapabilities) Takes(block string) bool {
	switch block {
	case "text", "resource_link":
		return true
	case "image":
		return c.Image
	case "audio":
		return c.Audio
	case "resource":
		return c.EmbeddedContext
	}
	return false
}

// AuthMethod is a way to log in. One of type "terminal" needs a person at a terminal.
type AuthMethod struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
}

// AuthenticateParams chooses one.
type AuthenticateParams struct {
	MethodID string `json:"methodId"`
}

// NewSessionParams begins a session.
type NewSessionParams struct {
	Cwd        string      `json:"cwd"`
	MCPServers []MCPServer `json:"mcpServers"` // required, also when empty
}

// LoadSessionParams takes up an old one; with session/load the agent replays it before it
// answers, with session/resume it does not.
type LoadSessionParams struct {
	SessionID  string      `json:"sessionId"`
	Cwd        string      `json:"cwd"`
	MCPServers []MCPServer `json:"mcpServers"`
}

// SessionResult answers all three; a loaded session has no SessionID in it. Modes and Models are
// older forms of what ConfigOptions say.
type SessionResult struct {
	SessionID     string          `json:"sessionId"`
	Modes         json.RawMessage `json:"modes,omitempty"`
	Models        json.RawMessage `json:"models,omitempty"`
	ConfigOptions json.RawMessage `json:"configOptions,omitempty"`
}

// PromptParams is one prompt.
type PromptParams struct {
	SessionID string            `json:"sessionId"`
	Prompt    []json.RawMessage `json:"prompt"`
	Meta      *TraceMeta        `json:"_meta,omitempty"`
}

// TraceMeta is the W3C trace context of a request, under the names that ACP reserves for it in _meta.
type TraceMeta struct {
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate,omitempty"`
}

// MetaOf is the _meta of a trace context; nil of none.
func MetaOf(traceparent, tracestate string) *TraceMeta {
	if traceparent == "" {
		return nil
	}
	return &TraceMeta{Traceparent: traceparent, Tracestate: tracestate}
}

// PromptAnswer is how it ended.
type PromptAnswer struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage,omitempty"`
}

// StopCancelled is the stop reason of a cancelled prompt.
const StopCancelled = "cancelled"

// CancelParams stops what a session does.
type CancelParams struct {
	SessionID string `json:"sessionId"`
}

// SetModeParams chooses a mode.
type SetModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

// SetModelParams chooses a model the old way.
type SetModelParams struct {
	SessionID string `json:"sessionId"`
	ModelID   string `json:"modelId"`
}

// SetConfigOptionParams sets an option; Type is "boolean" for a boolean one.
type SetConfigOptionParams struct {
	SessionID string          `json:"sessionId"`
	ConfigID  string          `json:"configId"`
	Type      string          `json:"type,omitempty"`
	Value     json.RawMessage `json:"value"`
}

// SetConfigOptionResult is the whole new list.
type SetConfigOptionResult struct {
	ConfigOptions json.RawMessage `json:"configOptions"`
}

// UpdateParams carries one update, which stays as it came.
type UpdateParams struct {
	SessionID string          `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// PermissionParams asks a person.
type PermissionParams struct {
	SessionID string            `json:"sessionId"`
	ToolCall  json.RawMessage   `json:"toolCall"`
	Options   []json.RawMessage `json:"options"`
}

// PermissionOption is one possible answer. Its id is the agent's own; its kind is one of
// allow_once, allow_always, reject_once, reject_always.
type PermissionOption struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
}

// PermissionResult is the answer.
type PermissionResult struct {
	Outcome PermissionOutcome `json:"outcome"`
}

// PermissionOutcome is "selected" with an option, or "cancelled".
type PermissionOutcome struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId,omitempty"`
}

// Outcomes of a permission request.
const (
	OutcomeSelected  = "selected"
	OutcomeCancelled = "cancelled"
)

// CancelRequestParams withdraws a request.
type CancelRequestParams struct {
	RequestID ID `json:"requestId"`
}

// ReadTextFileParams asks for a file, or Limit lines of it from Line (which counts from 1).
type ReadTextFileParams struct {
	Path  string `json:"path"`
	Line  int    `json:"line"`
	Limit *int   `json:"limit"`
}

// ReadTextFileResult is its text.
type ReadTextFileResult struct {
	Content string `json:"content"`
}

// WriteTextFileParams replaces a file.
type WriteTextFileParams struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// TerminalCreateParams starts a command.
type TerminalCreateParams struct {
	Command         string        `json:"command"`
	Args            []string      `json:"args"`
	Env             []EnvVariable `json:"env"`
	Cwd             string        `json:"cwd"`
	OutputByteLimit *int          `json:"outputByteLimit"`
}

// EnvVariable is one of an environment.
type EnvVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TerminalID names a terminal, in a result and in the parameters of what follows.
type TerminalID struct {
	TerminalID string `json:"terminalId"`
}

// TerminalOutputResult is what a command wrote so far, from the end when it was too much.
type TerminalOutputResult struct {
	Output     string      `json:"output"`
	Truncated  bool        `json:"truncated"`
	ExitStatus *ExitStatus `json:"exitStatus,omitempty"`
}

// ExitStatus is how a process ended: by itself, or by a signal.
type ExitStatus struct {
	ExitCode *int    `json:"exitCode"`
	Signal   *string `json:"signal"`
}
