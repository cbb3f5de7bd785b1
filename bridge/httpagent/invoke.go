package httpagent

import (
	"bytes"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/agui/openai"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// invokeHead is the first half of the body of POST /invoke, and invokeRest the second; "messages", the transcript, is
// written between them (withTranscript). The platform contract's members (§6.1) come first, then the ones that Aqueduct
// adds. An agent may ignore what it does not know. session_id is the thread's id as the client named it; the header
// x-aqueduct-session-id has ours.
type invokeHead struct {
	AgentID      string          `json:"agent_id"`
	SessionID    string          `json:"session_id"`
	RunID        string          `json:"run_id"`
	InputMessage json.RawMessage `json:"input_message"`
}

// invokeRest are the members after the transcript.
type invokeRest struct {
	Context struct {
		UserID string `json:"user_id"`
	} `json:"context"`

	Tools []tool `json:"tools"`
	// FunctionNames has the original names of tools whose names do not fit the APIs of models, by their names in "messages"
	// and "tools".
	FunctionNames  map[string]string `json:"function_names,omitempty"`
	State          json.RawMessage   `json:"state,omitempty"`
	ClientContext  []clientContext   `json:"client_context"`
	ForwardedProps json.RawMessage   `json:"forwarded_props,omitempty"`
	Resume         []resume          `json:"resume,omitempty"`
}

// tool is a tool that the user's client declares.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// clientContext is an entry of AG-UI's RunAgentInput.context.
type clientContext struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// resume is the answer to one Question that the agent asked in an earlier invoke of the Turn.
// For example {"id":"q1","status":"resolved","payload":{"optionId":"allow_once","approved":true,"kind":"allow_once"}}.
type resume struct {
	ID      string          `json:"id"`
	CallID  string          `json:"call_id,omitempty"` // by which the transcript has the Question
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Reason  string          `json:"reason,omitempty"` // "expired" where no person answered in time
	// Key is that of a call of a tool which waited when the agent's call was lost; ID is the call's then. Repeated is set for
	// an answer that the lost call has had.
	Key      string `json:"idempotency_key,omitempty"`
	Repeated bool   `json:"repeated,omitempty"`
}

// bodyOf builds the request body of one invoke. The transcript is fitted (agui.Fit) and in the configured form. Lists that
// the protocol promises are empty, never null; resume is present only in an invoke that brings answers. The agent may use the
// tool names that it was sent, so the translator of its answer gets the names.
func bodyOf(call bridge.Call, answers []approval.Delivery, form Messages) (body []byte, names agui.FunctionNames, err error) {
	input := call.Input()
	var open map[string]bool
	if len(answers) > 0 && form != MessagesOpenAI { // OpenAI's API refuses a call without a result
		open = agui.CallsOfTurn(call.Messages)
	}
	fit := agui.Fit(call.Messages, call.Tools, open)
	first := invokeHead{
		AgentID: call.AgentID, SessionID: call.ThreadID, RunID: call.TurnID,
		InputMessage: input.AppendKept(nil),
	}
	b := invokeRest{
		Tools: make([]tool, 0, len(fit.Tools)), FunctionNames: fit.Names.Changed(), State: call.State,
		ClientContext: make([]clientContext, 0, len(call.Context)), ForwardedProps: call.ForwardedProps,
	}
	b.Context.UserID = call.UserID
	for _, t := range fit.Tools {
		b.Tools = append(b.Tools, tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	for _, c := range call.Context {
		b.ClientContext = append(b.ClientContext, clientContext{Description: c.Description, Value: c.Value})
	}
	for _, a := range answers {
		b.Resume = append(b.Resume, resume{ID: a.UpstreamID, CallID: a.CallID, Status: a.Status, Payload: a.Payload, Reason: a.Reason, Key: a.Key, Repeated: a.Repeated})
	}
	var transcript json.RawMessage
	if form == MessagesOpenAI {
		if transcript, first.InputMessage, err = openai.Prompted(fit.Messages, input); err != nil {
			return nil, fit.Names, err
		}
	}
	rest, err := marshal(b)
	if err != nil {
		return nil, fit.Names, err
	}
	head, err := marshal(first)
	if err != nil {
		return nil, fit.Names, err
	}
	if transcript != nil {
		body = append(append(head[:len(head)-1], `,"messages":`...), transcript...)
		return append(append(body, ','), rest[1:]...), fit.Names, nil
	}
	return withTranscript(head, fit.Messages, rest), fit.Names, nil
}

// marshal is json.Marshal without the escapes for HTML, so that an answer or approved arguments are sent byte for byte.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// withTranscript writes the transcript between the two halves of the body, each of which is an object with members. The
// transcript may be nearly all of the body, so its kept bytes are copied and not encoded again.
func withTranscript(head []byte, messages []agui.Message, rest []byte) []byte {
	size := len(head) + len(rest) + 32
	for i := range messages {
		size += messages[i].KeptSize() + 1
	}
	body := append(make([]byte, 0, size), head[:len(head)-1]...)
	body = append(body, `,"messages":[`...)
	for i := range messages {
		if i > 0 {
			body = append(body, ',')
		}
		body = messages[i].AppendKept(body)
	}
	return append(append(body, "],"...), rest[1:]...)
}
