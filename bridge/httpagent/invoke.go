package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/bridge/trace"
)

// invokeBody is the platform contract's body (§6.1), and below the line what we add.
type invokeBody struct {
	invokeHead
	// "messages", the transcript, stands here; see bodyOf.
	invokeRest
}

type invokeHead struct {
	AgentID      string          `json:"agent_id"`
	SessionID    string          `json:"session_id"`
	RunID        string          `json:"run_id"`
	InputMessage json.RawMessage `json:"input_message"`
}

// invokeRest is what follows the transcript.
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

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type clientContext struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

type resume struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func bodyOf(call bridge.Call, answers []bridge.Answer, form Messages) ([]byte, error) {
	input := call.Input()
	var b invokeBody
	b.invokeHead = invokeHead{
		AgentID: call.AgentID, SessionID: call.ThreadID, RunID: call.TurnID,
		InputMessage: input.AppendKept(nil),
	}
	b.invokeRest = invokeRest{
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
		if transcript, b.InputMessage, err = openAITranscript(call.Messages, input); err != nil {
			return nil, err
		}
	}
	rest, err := marshal(b.invokeRest)
	if err != nil {
		return nil, err
	}
	head, err := marshal(b.invokeHead)
	if err != nil {
		return nil, err
	}
	if transcript != nil {
		body := append(append(head[:len(head)-1], `,"messages":`...), transcript...)
		return append(append(body, ','), rest[1:]...), nil
	}
	return withTranscript(head, call.Messages, rest), nil
}

// marshal is json.Marshal without the escapes for HTML: what a person answered, or approved, is sent as it was.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// withTranscript puts the transcript between two halves of an object, which are objects with
// members themselves. It may be most of the body by far, and is not read again to be written.
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

// invoke calls the agent and waits for the headers of its answer.
func (a *Agent) invoke(ctx context.Context, call bridge.Call, answers []bridge.Answer) (bridge.Turn, error) {
	body, err := bodyOf(call, answers, a.cfg.Messages)
	if err != nil {
		return nil, &bridge.Failure{Code: bridge.CodeInternal, Message: "The request to the agent could not be made.", Cause: err}
	}
	t := newTurn(ctx, a.cfg.Limits, call.TurnID)
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, a.cfg.URL+"/invoke", bytes.NewReader(body))
	if err != nil {
		t.Release()
		return nil, &bridge.Failure{Code: CodeUnreachable, Message: "The agent's address is not valid.", Cause: err}
	}
	a.setHeaders(req.Header, call)
	signed.Set(req.Header, a.cfg.Secret, body, time.Now())
	resp, err := a.client.Do(req)
	if err != nil {
		code, message := CodeUnreachable, "The agent could not be reached."
		if no := (*outbound.Refused)(nil); errors.As(err, &no) {
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
	t.limits.heard()
	return t, nil
}

func (a *Agent) setHeaders(h http.Header, call bridge.Call) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	if c, ok := trace.Parse(call.Traceparent, call.Tracestate); ok {
		c.SetHeaders(h)
	}
	h.Set("x-session-id", headerText(call.ThreadID))
	h.Set("x-aqueduct-session-id", call.SessionID)
	h.Set("x-run-id", call.TurnID)
	h.Set("x-aqueduct-base-url", a.cfg.SelfURL)
	h.Set("x-aqueduct-run-token", call.RunToken)
}

// headerText is a client's id as a header has it: percent-encoded where it is not plain ASCII, which a client may not
// have kept to, and where it looks as if it were encoded.
func headerText(id string) string {
	if strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) < 0 {
		return id
	}
	return url.PathEscape(id)
}

// refused tells why an answer is not a stream. Its body goes nowhere: it may hold what a
// user must not see.
func refused(resp *http.Response) *bridge.Failure {
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // lets the connection be used again
		return &bridge.Failure{Code: CodeStatus, Message: "The agent answered HTTP " + resp.Status + "."}
	}
	if mt, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || mt != "text/event-stream" {
		return &bridge.Failure{Code: CodeNotStream, Message: "The agent did not answer with an event stream."}
	}
	return nil
}
