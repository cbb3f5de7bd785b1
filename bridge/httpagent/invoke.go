package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/agui/openai"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
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

	Tools          []tool          `json:"tools"`
	State          json.RawMessage `json:"state,omitempty"`
	ClientContext  []clientContext `json:"client_context"`
	ForwardedProps json.RawMessage `json:"forwarded_props,omitempty"`
	Resume         []resume        `json:"resume,omitempty"`
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
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// bodyOf is the request body of one invoke, the transcript in the form that the agent is configured for. Lists that an
// agent is promised are empty and never null; resume is only there in an invoke that brings answers.
func bodyOf(call bridge.Call, answers []approval.Delivery, form Messages) ([]byte, error) {
	input := call.Input()
	first := invokeHead{
		AgentID: call.AgentID, SessionID: call.ThreadID, RunID: call.TurnID,
		InputMessage: input.AppendKept(nil),
	}
	b := invokeRest{
		Tools: make([]tool, 0, len(call.Tools)), State: call.State,
		ClientContext: make([]clientContext, 0, len(call.Context)), ForwardedProps: call.ForwardedProps,
	}
	b.Context.UserID = call.UserID
	for _, t := range call.Tools {
		b.Tools = append(b.Tools, tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	for _, c := range call.Context {
		b.ClientContext = append(b.ClientContext, clientContext{Description: c.Description, Value: c.Value})
	}
	for _, a := range answers {
		b.Resume = append(b.Resume, resume{ID: a.UpstreamID, Status: a.Status, Payload: a.Payload})
	}
	var transcript json.RawMessage
	if form == MessagesOpenAI {
		var err error
		if transcript, first.InputMessage, err = openai.Prompted(call.Messages, input); err != nil {
			return nil, err
		}
	}
	rest, err := marshal(b)
	if err != nil {
		return nil, err
	}
	head, err := marshal(first)
	if err != nil {
		return nil, err
	}
	if transcript != nil {
		body := append(append(head[:len(head)-1], `,"messages":`...), transcript...)
		return append(append(body, ','), rest[1:]...), nil
	}
	return withTranscript(head, call.Messages, rest), nil
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
	first := true
	for i := range messages {
		if messages[i].Role == agui.RoleActivity { // shown to people only
			continue
		}
		if !first {
			body = append(body, ',')
		}
		first = false
		body = messages[i].AppendKept(body)
	}
	return append(append(body, "],"...), rest[1:]...)
}

// invoke calls the agent and waits for the headers of its answer. The Turn it returns owns the response body; on every
// error path Release closes what was opened.
// The limiter runs from before the connection: its first timeout ends a connect that hangs too.
func (a *Agent) invoke(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	body, err := bodyOf(call, answers, a.cfg.Messages)
	if err != nil {
		return nil, &fault.Error{Code: bridge.CodeInternal, Message: "The request to the agent could not be made.", Cause: err}
	}
	t := newTurn(ctx, a.cfg.Limits, call.TurnID)
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, a.cfg.URL+"/invoke", bytes.NewReader(body))
	if err != nil {
		t.Release()
		return nil, &fault.Error{Code: CodeUnreachable, Message: "The agent's address is not valid.", Cause: err}
	}
	a.setHeaders(req.Header, call)
	signed.Set(req.Header, a.cfg.Secret, body, time.Now())
	resp, err := a.client.Do(req) //nolint:bodyclose // the invocation's reader closes it
	if err != nil {
		// Why an address is refused may be shown: it holds a reason, and never what the name resolved to.
		code, message := CodeUnreachable, "The agent could not be reached."
		if _, ok := errors.AsType[*outbound.Refused](err); ok {
			code, message = CodeRefused, "The agent's address may not be called: "+outbound.Cause(err)+"."
		}
		err = t.failure(err, code, message)
		t.Release()
		return nil, err
	}
	t.body = resp.Body
	if f := refused(resp); f != nil {
		t.Release()
		return nil, f
	}
	t.reader = newFrameReader(resp.Body, a.cfg.Limits.FrameBytes)
	t.limits.received() // the headers: from here on the idle timeout counts in place of the first byte's
	return t, nil
}

// setHeaders sets the contract's headers (§6.1) and the trace context.
// The run token is what the agent calls tools and sends messages with; it is good for this call only.
func (a *Agent) setHeaders(h http.Header, call bridge.Call) {
	maps.Copy(h, a.cfg.Header)
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	if c, ok := trace.Parse(call.Traceparent, call.Tracestate); ok {
		c.SetHeaders(h)
	}
	h.Set("x-session-id", headerText(call.ThreadID)) // the only one of these that a client chose
	h.Set("x-aqueduct-session-id", call.SessionID)
	h.Set("x-run-id", call.TurnID)
	h.Set("x-aqueduct-base-url", a.cfg.SelfURL)
	h.Set("x-aqueduct-run-token", call.RunToken)
}

// headerText is a client's id in a form that a header can hold: percent-encoded when it has other characters than visible
// ASCII, and when it contains a percent sign, so that decoding gives the id back in every case.
func headerText(id string) string {
	if strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) < 0 {
		return id
	}
	return url.PathEscape(id)
}

// refused is the error of an answer that is not an event stream; nil for one that is. The body is discarded: it may hold
// what a user must not see.
func refused(resp *http.Response) *fault.Error {
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // lets the connection be used again
		return fault.New(CodeStatus, "The agent answered HTTP "+resp.Status+".")
	}
	if mt, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || mt != "text/event-stream" {
		return fault.New(CodeNotStream, "The agent did not answer with an event stream.")
	}
	return nil
}
