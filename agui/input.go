// This file is what a client posts to start a run.

package agui

import "encoding/json"

// The answers an interrupt can get.
const (
	ResumeResolved  = "resolved"
	ResumeCancelled = "cancelled"
)

// RunAgentInput is what a client posts to start a run. Tools and Context keep
// the difference between absent (nil) and empty.
type RunAgentInput struct {
	ThreadID        string          `agui:"threadId,always"`
	RunID           string          `agui:"runId,always"`
	ParentRunID     string          `agui:"parentRunId"`
	ProtocolVersion string          `agui:"protocolVersion"` // "" is a peer from before 1.0
	State           json.RawMessage `agui:"state"`
	Messages        []Message       `agui:"messages,always,most=20000"`
	Tools           []Tool          `agui:"tools,present"`
	Context         []Context       `agui:"context,present"`
	ForwardedProps  json.RawMessage `agui:"forwardedProps"`
	Resume          []ResumeEntry   `agui:"resume"`
}

// Tool is a tool the client offers to run itself.
type Tool struct {
	Name        string          `agui:"name,required"`
	Description string          `agui:"description,always"`
	Parameters  json.RawMessage `agui:"parameters"` // a JSON Schema
	Metadata    json.RawMessage `agui:"metadata,object"`
}

// Context is something the client wants the agent to know.
type Context struct {
	Description string `agui:"description,always"`
	Value       string `agui:"value,always"`
}

// ResumeEntry answers one interrupt.
type ResumeEntry struct {
	InterruptID string          `agui:"interruptId,required"`
	Status      string          `agui:"status,required,oneof=resolved|cancelled"`
	Payload     json.RawMessage `agui:"payload"`
	Metadata    json.RawMessage `agui:"metadata,object"`
}

// DecodeInput reads a RunAgentInput, liberally: null is absent, messages, tools
// and context may be missing, the binary parts of 0.x are upgraded and unknown
// members are ignored. Wrong types, unknown roles and unknown answers are an
// [*InputError], since to run on them would be to guess.
//
// It trusts that [CheckJSON] has looked at the body before.
func DecodeInput(body []byte) (*RunAgentInput, error) {
	if !json.Valid(body) {
		return nil, wrong("not valid JSON")
	}
	in := new(RunAgentInput)
	if err := readObject(body, in); err != nil {
		return nil, err
	}
	for i := range in.Messages {
		in.Messages[i].in10()
	}
	return in, nil
}

// in10 leaves out what only a client of the draft of 1.1 sends back, as the log that the message goes into is 1.0. Of messages
// of agents, which alone have it, the transcript knows it anyway.
func (m *Message) in10() {
	m.EncryptedValueType = ""
	for i := range m.ToolCalls {
		m.ToolCalls[i].EncryptedValueType = ""
	}
}

// AppendJSON appends the input as a JSON object.
func (in *RunAgentInput) AppendJSON(dst []byte) []byte { return appendObject(dst, in) }
