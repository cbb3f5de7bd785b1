package httpagent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/aguiagent"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
)

// request is what one call of the agent sends, and what gives the answer its meaning.
type request struct {
	address string
	body    []byte
	meaning meaning
}

// request makes the request of a call.
func (a *Agent) request(call bridge.Call, answers []approval.Delivery) (request, error) {
	if a.cfg.Protocol == ProtocolAGUI {
		made := aguiagent.Prompt(call, answers)
		made.Translator.KeepRaw = a.cfg.KeepRaw
		if made.Cancelled {
			return request{meaning: uncalled{}}, nil
		}
		return request{a.cfg.URL, made.Body, aguiMeaning{made.Translator}}, nil
	}
	body, names, err := bodyOf(call, answers, a.cfg.Messages)
	meaning := newTranslator(call.TurnID, newID)
	meaning.names = names
	return request{a.cfg.URL + "/invoke", body, meaning}, err
}

// aguiMeaning is the meaning of AG-UI's streams, whose events are named in their data.
type aguiMeaning struct{ *aguiagent.Translator }

// translate implements meaning.
func (m aguiMeaning) translate(dst []bridge.Output, f frame) ([]bridge.Output, error) {
	return m.Translate(dst, f.data)
}

// over implements meaning.
func (m aguiMeaning) over() bool { return m.Ended() }

// ends implements meaning.
func (m aguiMeaning) ends(dst []bridge.Output) []bridge.Output { return m.End(dst) }

// uncalled is the meaning of a call that is not made, because the agent would take it for a person's answer.
type uncalled struct{}

// translate implements meaning.
func (uncalled) translate(dst []bridge.Output, _ frame) ([]bridge.Output, error) { return dst, nil }

// over implements meaning.
func (uncalled) over() bool { return false }

// ends implements meaning.
func (uncalled) ends(dst []bridge.Output) []bridge.Output {
	return append(dst, bridge.Output{End: &bridge.End{Cancelled: true}})
}

// call calls the agent and waits for the headers of its answer. The Turn it returns owns the response body; on every
// error path Release closes what was opened.
// The limiter runs from before the connection: its first timeout ends a connect that hangs too.
func (a *Agent) call(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	if err := a.stops.wait(ctx, call.InstanceID); err != nil {
		return nil, err
	}
	t := newTurn(ctx, a, call, answers)
	err := t.open()
	if errors.Is(err, errBusy) {
		err = t.openAgain()
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// errBusy is the cause of a failure by a status that means that the agent is busy.
var errBusy = errors.New("the agent is busy")

// open makes the request.
func (t *turn) open() error {
	a := t.agent
	r, err := a.request(t.call, t.answers)
	if err != nil {
		return &fault.Error{Code: bridge.CodeInternal, Message: "The request to the agent could not be made.", Cause: err}
	}
	t.means = r.meaning
	if r.address == "" {
		t.body = http.NoBody
		t.reader = newFrameReader(t.body, a.cfg.Limits.FrameBytes)
		return nil
	}
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, r.address, bytes.NewReader(r.body))
	if err != nil {
		return &fault.Error{Code: CodeUnreachable, Message: "The agent's address is not valid.", Cause: err}
	}
	a.setHeaders(req.Header, t.call)
	signed.Set(req.Header, a.cfg.Secret, r.body, time.Now())
	t.over = false
	resp, err := a.client.Do(req) //nolint:bodyclose // the invocation's reader closes it
	if err != nil {
		// Why an address is refused may be shown: it holds a reason, and never what the name resolved to.
		code, message := CodeUnreachable, "The agent could not be reached."
		if _, ok := errors.AsType[*outbound.Refused](err); ok {
			code, message = CodeRefused, "The agent's address may not be called: "+outbound.Cause(err)+"."
		}
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			err = errors.Join(bridge.ErrUnsent, err) // there was no connection to send anything by
			t.over = true
		}
		return t.failure(err, code, message)
	}
	t.body = resp.Body
	if f := refused(resp); f != nil {
		if t.over = true; isBusyStatus(resp.StatusCode) {
			f.Cause = errBusy
		}
		return f
	}
	t.resumable = resp.Header.Get(resumableHeader) == "true"
	t.reader = newFrameReader(resp.Body, a.cfg.Limits.FrameBytes)
	if a.cfg.Protocol == ProtocolAGUI {
		t.reader.echo = new(squeezer)
	}
	t.limits.received() // the headers: from here on the idle timeout counts in place of the first byte's
	return nil
}

// openAgain repeats the request once for an agent that was busy. If the agent is still busy, the call fails.
func (t *turn) openAgain() error {
	t.repeated = true
	_ = t.body.Close() // the answer was already read, or is not needed
	if err := retry.Sleep(t.ctx, busySpan); err != nil {
		return t.failure(err, CodeUnreachable, "The agent could not be reached.")
	}
	return t.open()
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

// resumableHeader is a header of an agent's answer. "true" announces that the agent can be called again after this answer
// was lost (bridge.Resumable).
const resumableHeader = "x-aqueduct-resumable"

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
