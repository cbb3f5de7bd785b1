// Package httpagent makes an HTTP service that streams SSE from POST /invoke a
// bridge.Agent. What its frames mean is in translate.go, which is pure.
package httpagent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
)

// Limits bound what an upstream may do to us. The zero value of a member means its default.
type Limits struct {
	Connect    time.Duration // until the connection stands
	FirstByte  time.Duration // until the answer's headers
	Idle       time.Duration // between two complete frames or comments; bytes that complete none do not count
	Total      time.Duration // of one invoke
	FrameBytes int           // of one frame
}

func (l Limits) withDefaults() Limits {
	l.Connect = orDefault(l.Connect, 10*time.Second)
	l.FirstByte = orDefault(l.FirstByte, 300*time.Second)
	l.Idle = orDefault(l.Idle, 300*time.Second)
	l.Total = orDefault(l.Total, time.Hour)
	if l.FrameBytes == 0 {
		l.FrameBytes = 8 << 20
	}
	return l
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Outbound are the limits of the Gate that calls go through. How long an answer may take, and
// how much of it there may be, is counted here, where a person's time to think is not.
func (l Limits) Outbound() outbound.Limits {
	return outbound.Limits{
		Connect: l.withDefaults().Connect, FirstByte: -1, Total: -1, Body: -1,
		Redirects: -1, // an agent that redirects is misconfigured; following would carry the run token away
	}
}

// Config describes one HTTP agent.
type Config struct {
	ID      string
	URL     string // without /invoke
	SelfURL string // where the agent reaches us: x-aqueduct-base-url
	// Messages is the form of the conversation that the agent is sent.
	Messages Messages
	Limits   Limits
	Secret   signed.Secret  // signs the calls; "" signs none
	Gate     *outbound.Gate // the way out; with the Outbound of the Limits
}

// Agent is one HTTP agent.
type Agent struct {
	cfg    Config
	client *http.Client
}

// New makes an Agent. It connects when it is called.
func New(cfg Config) *Agent {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.URL = strings.TrimRight(cfg.URL, "/")
	return &Agent{cfg: cfg, client: cfg.Gate.Client()}
}

// Start gives the agent a new prompt.
func (a *Agent) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	return a.invoke(ctx, call, nil)
}

// Resume calls the agent again with the answers it waits for. One that was interrupted in
// mid-answer cannot be taken up: it keeps nothing between calls.
func (a *Agent) Resume(ctx context.Context, call bridge.Call, answers []bridge.Answer) (bridge.Turn, error) {
	if len(answers) == 0 {
		return nil, bridge.ErrCannotResume
	}
	return a.invoke(ctx, call, answers)
}

// healthWait bounds a health probe.
const healthWait = 5 * time.Second

// Healthy asks GET /health.
func (a *Agent) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.cfg.URL+"/health", nil)
	if err != nil {
		return err
	}
	signed.Set(req.Header, a.cfg.Secret, nil, time.Now())
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<10); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("health: HTTP " + resp.Status)
	}
	return nil
}

// Close drops idle connections.
func (a *Agent) Close() { a.client.CloseIdleConnections() }
