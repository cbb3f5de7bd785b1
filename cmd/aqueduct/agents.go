package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/examples/demoagent"
	"aqueduct/server"
)

// agentFlag is id=URL.
type agentFlag struct{ id, url, host string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *agentFlag) UnmarshalText(text []byte) error {
	id, endpoint, ok := strings.Cut(string(text), "=")
	u, err := url.Parse(endpoint)
	if !ok || err != nil || !bridge.ValidName(id) || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("expected id=http://…")
	}
	a.id, a.url, a.host = id, endpoint, u.Host
	return nil
}

// addAgents makes the directory; the first is the default. What their hosts resolve to may be
// private and this machine, for the operator named them; the metadata of clouds it may not be.
func addAgents(upstream *stage, agents []agentFlag, openAI []string, secrets map[string]signed.Secret, selfURL string, limits httpagent.Limits) (*bridge.Directory, error) {
	for _, id := range openAI {
		if !slices.ContainsFunc(agents, func(a agentFlag) bool { return a.id == id }) {
			return nil, fmt.Errorf("--openai-agent %s: there is no --agent of that id", id)
		}
	}
	allow := []string{"127.0.0.0/8", "::1/128"}
	for _, a := range agents {
		allow = append(allow, a.host)
	}
	gate, err := outbound.New(outbound.Config{Allow: allow, Limits: limits.Outbound()})
	if err != nil {
		return nil, fmt.Errorf("--agent: %w", err)
	}
	directory := bridge.NewDirectory()
	for _, a := range agents {
		if err := gate.CheckURL(a.url); err != nil {
			return nil, fmt.Errorf("--agent %s: %w", a.id, err)
		}
		form := httpagent.MessagesAGUI
		if slices.Contains(openAI, a.id) {
			form = httpagent.MessagesOpenAI
		}
		agent := httpagent.New(httpagent.Config{ID: a.id, URL: a.url, SelfURL: selfURL, Messages: form, Limits: limits, Gate: gate, Secret: secrets[a.id]})
		directory.Add(a.id, agent)
		upstream.run("agent "+a.id, func(ctx context.Context) error {
			<-ctx.Done()
			agent.Close()
			return nil
		})
	}
	return directory, nil
}

// demoID is what the demo agent is called.
const demoID = "demo"

// startDemo serves the demo agent on a loopback port of its own: to the rest of the
// program it is an HTTP agent like any other.
func startDemo(upstream *stage, pace time.Duration) (agentFlag, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return agentFlag{}, err
	}
	speed := demoagent.Default()
	speed.Pace = pace
	srv := &http.Server{Handler: demoagent.New(speed), ReadHeaderTimeout: readHeaderTime}
	upstream.run("demo agent", serveUntilDone(srv, func() {}, ln))
	return agentFlag{demoID, "http://" + ln.Addr().String(), ln.Addr().String()}, nil
}

// probe watches the agents' health: a change is logged, the state is a metric.
func probe(agents *bridge.Directory, metrics *server.Metrics, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		ill := make(map[string]bool)
		agents.Probe(ctx, func(id string, err error) {
			if ctx.Err() != nil {
				return
			}
			if err != nil && !ill[id] {
				log.Warn("agent is not well", slog.String("agent", id), slog.Any("error", err))
			} else if err == nil && ill[id] {
				log.Info("agent is well again", slog.String("agent", id))
			}
			ill[id] = err != nil
			metrics.AgentProbed(id, err)
		})
		return nil
	}
}
