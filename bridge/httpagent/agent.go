// Package httpagent makes a bridge.Agent of an HTTP service that is called and answers with a stream of SSE: one that
// streams from POST /invoke (platform contract §6), or one that speaks AG-UI (package aguiagent).
// request.go makes the request, of /invoke with invoke.go, frame.go reads the stream, translate*.go gives the frames of
// /invoke their meaning and is pure, turn.go ties them together, and limit.go ends what takes too long.
//
// It knows the agent's protocol and nothing of the log, the rows or the client: it is given a bridge.Call, which is
// whole, and returns bridge.Outputs. An HTTP agent keeps nothing between two calls, so there are no cursors and no
// acknowledgements here: a Turn is either read to its last frame or it has failed.
package httpagent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/store"
)

// Messages is the form in which an agent gets the conversation.
type Messages string

// The forms of Messages.
const (
	MessagesAGUI   Messages = "agui" // as AG-UI has them; "" means the same
	MessagesOpenAI Messages = "openai"
)

// Protocol is what an agent is sent, and what its stream means.
type Protocol string

// The protocols.
const (
	ProtocolInvoke Protocol = store.AgentHTTP // POST /invoke; "" means the same
	ProtocolAGUI   Protocol = store.AgentAGUI // a RunAgentInput, answered by AG-UI's events
)

// Limits bound what an upstream may use. The zero value of a member means its default.
type Limits struct {
	Connect    time.Duration // until the connection stands
	FirstByte  time.Duration // until the answer's headers
	Idle       time.Duration // between two complete frames or comments; bytes that complete none do not count
	Total      time.Duration // of one invoke
	FrameBytes int           // of one frame
}

// withDefaults knows no value for "no limit": an upstream always has every one of them.
func (l Limits) withDefaults() Limits {
	l.Connect = cmp.Or(l.Connect, 10*time.Second)
	l.FirstByte = cmp.Or(l.FirstByte, 300*time.Second)
	l.Idle = cmp.Or(l.Idle, 300*time.Second)
	l.Total = cmp.Or(l.Total, time.Hour)
	l.FrameBytes = cmp.Or(l.FrameBytes, 8<<20)
	return l
}

// Outbound are the limits of the Gate that calls go through. The Gate bounds neither the time nor the size of an answer:
// the limiter does, and it leaves out the time for which the Turn waits for a person.
func (l Limits) Outbound() outbound.Limits {
	return outbound.Limits{
		Connect: l.withDefaults().Connect, FirstByte: -1, Total: -1, Body: -1,
		Redirects: -1, // an agent that redirects is misconfigured; following would carry the run token away
	}
}

// Config describes one HTTP agent.
type Config struct {
	ID      string
	URL     string // of ProtocolInvoke without /invoke, of ProtocolAGUI whole
	SelfURL string // where the agent reaches us: x-aqueduct-base-url
	// Protocol is what the agent speaks.
	Protocol Protocol
	// Messages is the form of the conversation that an agent of ProtocolInvoke is sent.
	Messages  Messages
	Limits    Limits
	Resumable bool           // the agent can be called again after an answer was lost (bridge.Resumable)
	Secret    signed.Secret  // signs the calls; "" signs none
	Header    http.Header    // sent with each call: a credential
	Gate      *outbound.Gate // the way out; with the Outbound of the Limits
	Inside    *http.Client   // the way to an agent of this process, in place of the Gate
	// KeepRaw forwards the RAW events and rawEvents of an agent of ProtocolAGUI.
	KeepRaw bool
	// CancelOnLeave ends a Turn when the last client that reads it has left, as ?on_leave=cancel does for one request.
	CancelOnLeave bool
}

// Agent is one HTTP agent.
//
// The contract of /invoke in short: POST /invoke with {agent_id, session_id, run_id, input_message, messages, context, tools,
// state, resume} is answered by text/event-stream, whose last frame is done or error. An agent that asks something
// ends its answer with done {"pending":["id"]} and is called again with resume.
type Agent struct {
	cfg    Config
	client *http.Client
	stops  stops
}

// New makes an Agent. It connects when it is called.
func New(cfg Config) *Agent {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Protocol = cmp.Or(cfg.Protocol, ProtocolInvoke); cfg.Protocol == ProtocolInvoke {
		cfg.URL = strings.TrimRight(cfg.URL, "/")
	}
	a := &Agent{cfg: cfg, client: cfg.Inside}
	if a.client == nil {
		a.client = cfg.Gate.Client()
	}
	return a
}

// Start gives the agent a new prompt.
func (a *Agent) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	return a.call(ctx, call, nil)
}

// Resume calls the agent again with the answers it waits for. A Turn that was interrupted in the middle of an answer cannot
// be resumed: the agent keeps nothing between calls.
func (a *Agent) Resume(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	if len(answers) == 0 {
		return nil, bridge.ErrCannotResume
	}
	return a.call(ctx, call, answers)
}

// Resumable implements bridge.Resumable. An agent that was not configured so may say it with each answer (turn.Resumable).
func (a *Agent) Resumable() bool { return a.cfg.Resumable }

// CancelsOnLeave implements bridge.Leaving.
func (a *Agent) CancelsOnLeave() bool { return a.cfg.CancelOnLeave }

// Protocol is one of package store's, for the directory of agents.
func (a *Agent) Protocol() string { return string(a.cfg.Protocol) }

// healthWait bounds a health probe.
const healthWait = 5 * time.Second

// Healthy returns why the agent is not healthy. GET /health of /invoke's contract is answered with 200. AG-UI has no such
// route: HEAD of the endpoint shows that something answers there, and most servers refuse the method.
// It is called by the probes and not by chats: an agent that is slow to answer here can still be prompted.
func (a *Agent) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	method, address := http.MethodGet, a.cfg.URL+"/health"
	if a.cfg.Protocol == ProtocolAGUI {
		method, address = http.MethodHead, a.cfg.URL
	}
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, a.cfg.Header)
	signed.Set(req.Header, a.cfg.Secret, nil, time.Now())
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The body is read, so that the connection can be used again, but not all of an endless one.
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<10); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !a.isWell(resp.StatusCode) {
		return &StatusError{resp.StatusCode}
	}
	return nil
}

func (a *Agent) isWell(status int) bool {
	if a.cfg.Protocol == ProtocolAGUI {
		return status < http.StatusInternalServerError || status == http.StatusNotImplemented
	}
	return status == http.StatusOK
}

// Close drops idle connections.
func (a *Agent) Close() { a.client.CloseIdleConnections() }

// StatusError is a health probe that was answered with a status that is not well.
type StatusError struct{ Status int }

// HTTPStatus is the status.
func (e *StatusError) HTTPStatus() int { return e.Status }

// Error implements error.
func (e *StatusError) Error() string {
	return "the probe was answered with HTTP " + strconv.Itoa(e.Status)
}
