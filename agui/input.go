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
	ThreadID        string
	RunID           string
	ParentRunID     string
	ProtocolVersion string // "" is a peer from before 1.0
	State           json.RawMessage
	Messages        []Message
	Tools           []Tool
	Context         []Context
	ForwardedProps  json.RawMessage
	Resume          []ResumeEntry
}

// Tool is a tool the client offers to run itself.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON Schema
	Metadata    json.RawMessage
}

// Context is something the client wants the agent to know.
type Context struct {
	Description string
	Value       string
}

// ResumeEntry answers one interrupt.
type ResumeEntry struct {
	InterruptID string
	Status      string
	Payload     json.RawMessage
	Metadata    json.RawMessage
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
	if err := walk(body, in); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *RunAgentInput) member(key, raw []byte) error {
	switch string(key) {
	case "threadId":
		return decodeString(&in.ThreadID, raw)
	case "runId":
		return decodeString(&in.RunID, raw)
	case "parentRunId":
		return decodeString(&in.ParentRunID, raw)
	case "protocolVersion":
		return decodeString(&in.ProtocolVersion, raw)
	case "state":
		return decodeRaw(&in.State, raw)
	case "messages":
		return decodeList(&in.Messages, raw)
	case "tools":
		return decodeList(&in.Tools, raw)
	case "context":
		return decodeList(&in.Context, raw)
	case "forwardedProps":
		return decodeRaw(&in.ForwardedProps, raw)
	case "resume":
		return decodeList(&in.Resume, raw)
	}
	return nil
}

// AppendJSON appends the input as a JSON object.
func (in *RunAgentInput) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "threadId", in.ThreadID)
	dst = appendMember(dst, "runId", in.RunID)
	dst = appendOptional(dst, "parentRunId", in.ParentRunID)
	dst = appendOptional(dst, "protocolVersion", in.ProtocolVersion)
	dst = appendOptionalRaw(dst, "state", in.State)
	dst = appendMessages(dst, in.Messages)
	dst = in.appendTools(dst)
	dst = in.appendContext(dst)
	dst = appendOptionalRaw(dst, "forwardedProps", in.ForwardedProps)
	dst = in.appendResume(dst)
	return append(dst, '}')
}

func (in *RunAgentInput) appendTools(dst []byte) []byte {
	if in.Tools == nil {
		return dst
	}
	dst = append(appendKey(dst, "tools"), '[')
	for i := range in.Tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = in.Tools[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

func (in *RunAgentInput) appendContext(dst []byte) []byte {
	if in.Context == nil {
		return dst
	}
	dst = append(appendKey(dst, "context"), '[')
	for i, c := range in.Context {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMember(append(dst, '{'), "description", c.Description)
		dst = append(appendMember(dst, "value", c.Value), '}')
	}
	return append(dst, ']')
}

func (in *RunAgentInput) appendResume(dst []byte) []byte {
	if len(in.Resume) == 0 {
		return dst
	}
	dst = append(appendKey(dst, "resume"), '[')
	for i := range in.Resume {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = in.Resume[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the tool as a JSON object.
func (t *Tool) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "name", t.Name)
	dst = appendMember(dst, "description", t.Description)
	dst = appendOptionalRaw(dst, "parameters", t.Parameters)
	dst = appendOptionalRaw(dst, "metadata", t.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the answer as a JSON object.
func (r *ResumeEntry) AppendJSON(dst []byte) []byte {
	dst = appendMember(append(dst, '{'), "interruptId", r.InterruptID)
	dst = appendMember(dst, "status", r.Status)
	dst = appendOptionalRaw(dst, "payload", r.Payload)
	dst = appendOptionalRaw(dst, "metadata", r.Metadata)
	return append(dst, '}')
}

func (t *Tool) member(key, raw []byte) error {
	switch string(key) {
	case "name":
		return decodeString(&t.Name, raw)
	case "description":
		return decodeString(&t.Description, raw)
	case "parameters":
		return decodeRaw(&t.Parameters, raw)
	case "metadata":
		return decodeObject(&t.Metadata, raw)
	}
	return nil
}

func (t *Tool) complete() error {
	if t.Name == "" {
		return within("name", wrong("is required"))
	}
	return nil
}

func (c *Context) member(key, raw []byte) error {
	switch string(key) {
	case "description":
		return decodeString(&c.Description, raw)
	case "value":
		return decodeString(&c.Value, raw)
	}
	return nil
}

func (r *ResumeEntry) member(key, raw []byte) error {
	switch string(key) {
	case "interruptId":
		return decodeString(&r.InterruptID, raw)
	case "status":
		return decodeOneOf(&r.Status, raw, ResumeResolved, ResumeCancelled)
	case "payload":
		return decodeRaw(&r.Payload, raw)
	case "metadata":
		return decodeObject(&r.Metadata, raw)
	}
	return nil
}

func (r *ResumeEntry) complete() error {
	if absent := lacks("interruptId", r.InterruptID, "status", r.Status); absent != "" {
		return within(absent, wrong("is required"))
	}
	return nil
}
