package wire

import "encoding/json"

// MethodElicit asks a person for input: a form, or a visit to an address.
const MethodElicit = "elicitation/create"

// The modes of an elicitation.
const (
	ElicitForm = "form"
	ElicitURL  = "url"
)

// ElicitationCapabilities are the modes a client takes.
type ElicitationCapabilities struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

// ElicitationParams asks. A session or, before there is one, a request is what it is about.
type ElicitationParams struct {
	SessionID       string          `json:"sessionId"`
	ToolCallID      string          `json:"toolCallId"`
	Mode            string          `json:"mode"`
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
	URL             string          `json:"url"`
}

// ElicitationResult is the answer. Content is there when a form was accepted.
type ElicitationResult struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

// What may be answered.
const (
	ElicitAccept  = "accept"
	ElicitDecline = "decline" // a person does not want to say
	ElicitCancel  = "cancel"  // the question was cancelled
)

// ElicitationRequest is elicitation/create as a proxy passes it on, to a gateway that offered to
// take it.
type ElicitationRequest struct {
	RequestID       RequestID       `json:"request_id"`
	SessionID       string          `json:"session_id"`
	PromptID        *string         `json:"prompt_id"`
	ToolCallID      string          `json:"tool_call_id,omitempty"`
	Mode            string          `json:"mode"`
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requested_schema,omitempty"`
	URL             string          `json:"url,omitempty"`
}

// Kind implements Signal.
func (*ElicitationRequest) Kind() string { return "elicitation_request" }

// SessionElicitation answers it. Nothing answers that.
type SessionElicitation struct {
	RunID     string          `json:"run_id"`
	SessionID string          `json:"session_id"`
	RequestID RequestID       `json:"request_id"`
	Action    string          `json:"action"`
	Content   json.RawMessage `json:"content,omitempty"`
}

// Type implements Frame.
func (*SessionElicitation) Type() string { return "session_elicitation" }

// Asks reports whether a signal asks a person.
func Asks(s Signal) bool {
	switch s.(type) {
	case *PermissionRequest, *ElicitationRequest:
		return true
	}
	return false
}
