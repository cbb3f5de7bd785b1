package wire

import (
	"encoding/json"
	"errors"
)

// ProxyUpdate carries a signal of the proxy's own; DecodeSignal reads its content.
type ProxyUpdate struct {
	RunID   string          `json:"run_id"`
	Content json.RawMessage `json:"content"`
}

// Type implements Frame.
func (*ProxyUpdate) Type() string { return "proxy_update" }

// Signal is the content of a proxy_update. Kind is its type.
type Signal interface{ Kind() string }

// Beginnings of a Text that say whose words follow.
const (
	PrefixInit   = "[init] "
	PrefixStderr = "[agent:stderr] "
	PrefixStdout = "[agent:stdout] " // what is no message of the protocol
	PrefixError  = "[proxy:error] "
)

// Text is a line for the console.
type Text struct {
	Text string `json:"text"`
}

// Kind implements Signal.
func (*Text) Kind() string { return "text" }

// InitStep is a stage of the preparation.
type InitStep struct {
	Stage   string `json:"stage"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Kind implements Signal.
func (*InitStep) Kind() string { return "init_step" }

// InitResult is how the preparation ended.
type InitResult struct {
	OK       bool   `json:"ok"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Kind implements Signal.
func (*InitResult) Kind() string { return "init_result" }

// InstanceStatus is how a run's instance is: creating, running, stopped, missing or error.
type InstanceStatus struct {
	InstanceName string  `json:"instance_name"`
	Provider     string  `json:"provider"`
	Runtime      *string `json:"runtime"`
	Status       string  `json:"status"`
	LastSeenAt   string  `json:"last_seen_at"`
	LastError    *string `json:"last_error"`
}

// Kind implements Signal.
func (*InstanceStatus) Kind() string { return "sandbox_instance_status" }

// TransportConnected reports that an agent's streams are open: a new process.
type TransportConnected struct {
	InstanceName string `json:"instance_name"`
	At           string `json:"at"`
}

// Kind implements Signal.
func (*TransportConnected) Kind() string { return "transport_connected" }

// TransportDisconnected reports that they are closed.
type TransportDisconnected struct {
	InstanceName string  `json:"instance_name"`
	Code         *int    `json:"code"`
	Signal       *string `json:"signal"`
	At           string  `json:"at"`
	Reason       string  `json:"reason"`
}

// Kind implements Signal.
func (*TransportDisconnected) Kind() string { return "transport_disconnected" }

// PermissionRequest asks a person.
type PermissionRequest struct {
	RequestID RequestID         `json:"request_id"`
	SessionID string            `json:"session_id"`
	PromptID  *string           `json:"prompt_id"`
	ToolCall  json.RawMessage   `json:"tool_call"`
	Options   []json.RawMessage `json:"options"` // PermissionOption, as they came
}

// Kind implements Signal.
func (*PermissionRequest) Kind() string { return "permission_request" }

// PermissionCancelled withdraws it. Sent only to a gateway that offered to take it.
type PermissionCancelled struct {
	RequestID RequestID `json:"request_id"`
	SessionID string    `json:"session_id"`
}

// Kind implements Signal.
func (*PermissionCancelled) Kind() string { return "permission_cancelled" }

// AgentNotification is a notification of the agent that the proxy does not know.
type AgentNotification struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Kind implements Signal.
func (*AgentNotification) Kind() string { return "agent_notification" }

// UnknownSignal is one of an unknown type, kept whole.
type UnknownSignal struct {
	Name string
	Raw  json.RawMessage
}

// Kind implements Signal.
func (u *UnknownSignal) Kind() string { return u.Name }

// errNameless: what has no id cannot be answered.
var errNameless = errors.New("acp: a request without request_id")

// DecodeSignal reads a proxy_update's content.
func DecodeSignal(content json.RawMessage) (Signal, error) {
	head, err := decodeHead(content)
	if err != nil {
		return nil, err
	}
	s := blankSignal(head.Type)
	if s == nil {
		return &UnknownSignal{Name: head.Type, Raw: content}, nil
	}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, err
	}
	switch p := s.(type) {
	case *PermissionRequest:
		if p.RequestID == "" {
			return nil, errNameless
		}
	case *ElicitationRequest:
		if p.RequestID == "" {
			return nil, errNameless
		}
	}
	return s, nil
}

func blankSignal(name string) Signal {
	switch name {
	case "text":
		return &Text{}
	case "init_step":
		return &InitStep{}
	case "init_result":
		return &InitResult{}
	case "sandbox_instance_status":
		return &InstanceStatus{}
	case "transport_connected":
		return &TransportConnected{}
	case "transport_disconnected":
		return &TransportDisconnected{}
	case "permission_request":
		return &PermissionRequest{}
	case "elicitation_request":
		return &ElicitationRequest{}
	case "permission_cancelled":
		return &PermissionCancelled{}
	case "agent_notification":
		return &AgentNotification{}
	}
	return nil
}

// named makes a Signal look like a Frame, so that both are written by one function.
type named struct{ Signal }

func (n named) Type() string                 { return n.Kind() }
func (n named) MarshalJSON() ([]byte, error) { return marshal(n.Signal) }

// NewProxyUpdate wraps a signal.
func NewProxyUpdate(runID string, s Signal) (*ProxyUpdate, error) {
	content, err := Encode(named{s})
	if err != nil {
		return nil, err
	}
	return &ProxyUpdate{RunID: runID, Content: content}, nil
}
