// Agents that are called by HTTP (--agent), the demo agent among them, and the probe of their health.

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/signed"
	"aqueduct/examples/demoagent"
	"aqueduct/internal/app"
	"aqueduct/internal/ids"
	"aqueduct/server"
)

// agentFlag is id=URL, or an option of the agent before it. host is kept for the list of addresses that may be called.
type agentFlag struct {
	id, url, host string
	protocol      httpagent.Protocol
	resumable     bool
	raw           string // keepRaw, dropRaw, or "" for an agent without the option
	cancelOnLeave bool
	inside        *http.Client // the way to an agent of this process; nil for any other
}

// The options of an agent. protocolOption begins the one that names its protocol.
const (
	protocolOption  = "protocol="
	resumableOption = "resumable"
	rawOption       = "raw="
	keepRaw         = "keep"
	dropRaw         = "drop"
	onLeaveOption   = "on_leave=cancel"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *agentFlag) UnmarshalText(text []byte) error {
	if a.takes(string(text)) {
		return nil
	}
	// A file gives the text whole; a flag and the environment, whose lists are cut at commas, give its parts. A URL may have
	// commas itself, so options are cut off from the end.
	agent := string(text)
	for {
		i := strings.LastIndexByte(agent, ',')
		if i < 0 || !a.takes(agent[i+1:]) {
			break
		}
		agent = agent[:i]
	}
	id, endpoint, ok := strings.Cut(agent, "=")
	u, err := url.Parse(endpoint)
	if strings.Contains(endpoint, ","+protocolOption) || strings.Contains(endpoint, ","+rawOption) || strings.Contains(endpoint, ",on_leave=") || !ok || err != nil || !ids.ValidName(id) || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("expected id=http://…, then ,protocol=http or ,protocol=agui, ,resumable for an agent that can be called again, ,raw=keep or ,raw=drop, and ,on_leave=cancel")
	}
	a.id, a.url, a.host = id, endpoint, u.Host
	return nil
}

// takes sets an option, if it is one.
func (a *agentFlag) takes(option string) bool {
	protocol, named := strings.CutPrefix(option, protocolOption)
	is := httpagent.Protocol(protocol)
	raw, ofRaw := strings.CutPrefix(option, rawOption)
	switch {
	case option == resumableOption:
		a.resumable = true
	case option == onLeaveOption:
		a.cancelOnLeave = true
	case ofRaw && (raw == keepRaw || raw == dropRaw):
		a.raw = raw
	case named && (is == httpagent.ProtocolInvoke || is == httpagent.ProtocolAGUI):
		a.protocol = is
	default:
		return false
	}
	return true
}

// withOptions joins the options of a list to the agents that they stand behind.
func withOptions(flags []agentFlag) (agents []agentFlag, err error) {
	for _, a := range flags {
		switch {
		case a.id != "":
			agents = append(agents, a)
		case len(agents) == 0:
			return nil, fmt.Errorf("--agent %s: an option follows an agent: id=URL,%[1]s", a.option())
		default:
			last := &agents[len(agents)-1]
			last.protocol, last.raw = cmp.Or(a.protocol, last.protocol), cmp.Or(a.raw, last.raw)
			last.resumable, last.cancelOnLeave = last.resumable || a.resumable, last.cancelOnLeave || a.cancelOnLeave
		}
	}
	return agents, nil
}

// option returns the first option of a part of a list that contains only options.
func (a agentFlag) option() string {
	switch {
	case a.resumable:
		return resumableOption
	case a.cancelOnLeave:
		return onLeaveOption
	case a.raw != "":
		return rawOption + a.raw
	}
	return protocolOption + string(a.protocol)
}

// addAgents makes the directory; the first is the default. closers close the agents' connections at the end. What
// their hosts resolve to may be private and this machine, for the operator named them; the metadata of clouds it may
// not be. The gate is one for all of them, so its list has the hosts of all.
func addAgents(agents []agentFlag, openAI []string, secrets map[string]signed.Secret, selfURL string, limits httpagent.Limits) (directory *bridge.Directory, closers []app.Part, err error) {
	for _, id := range openAI {
		if !slices.ContainsFunc(agents, func(a agentFlag) bool { return a.id == id && a.protocol != httpagent.ProtocolAGUI }) {
			return nil, nil, fmt.Errorf("--openai-agent %s: there is no --agent of that id that is called by POST /invoke", id)
		}
	}
	allow := []string{"127.0.0.0/8", "::1/128"} // localhost may resolve to either
	for _, a := range agents {
		if a.inside == nil {
			allow = append(allow, a.host)
		}
	}
	gate, err := outbound.New(outbound.Config{Allow: allow, Limits: limits.Outbound()})
	if err != nil {
		return nil, nil, fmt.Errorf("--agent: %w", err)
	}
	directory = bridge.NewDirectory()
	for i, a := range agents {
		if slices.ContainsFunc(agents[:i], func(b agentFlag) bool { return b.id == a.id }) {
			return nil, nil, fmt.Errorf("--agent: two agents are called %q (%s is the one of --model, %s that of --demo)", a.id, assistantID, demoID)
		}
		if err := gate.CheckURL(a.url); err != nil && a.inside == nil {
			return nil, nil, fmt.Errorf("--agent %s: %w", a.id, err)
		}
		form := httpagent.MessagesAGUI
		if slices.Contains(openAI, a.id) {
			form = httpagent.MessagesOpenAI
		}
		agent := httpagent.New(httpagent.Config{ID: a.id, URL: a.url, Protocol: a.protocol, Resumable: a.resumable, KeepRaw: a.raw == keepRaw, CancelOnLeave: a.cancelOnLeave, SelfURL: selfURL, Messages: form, Limits: limits, Gate: gate, Inside: a.inside, Secret: secrets[a.id]})
		directory.Add(a.id, agent)
		closers = append(closers, app.Part{Name: "agent " + a.id, Run: func(ctx context.Context) error {
			<-ctx.Done()
			agent.Close()
			return nil
		}})
	}
	return directory, closers, nil
}

// demoID is what the demo agent is called. It is reserved: no proxy elsewhere gets a token for it.
const demoID = "demo"

// demoAgent is the demo agent.
func demoAgent(pace time.Duration) (agentFlag, app.Part) {
	speed := demoagent.Default()
	speed.Pace = pace
	return ownAgent(demoID, demoagent.New(speed))
}

// probe watches the agents' health: a change is logged, the state is a metric. Only a change is logged, so that an
// agent that is away for a day makes two lines. mu guards ill: Agents are asked side by side.
func probe(agents *bridge.Directory, metrics *server.Metrics, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		var mu sync.Mutex
		ill := make(map[string]bool)
		agents.Probe(ctx, func(id string, err error) {
			mu.Lock()
			defer mu.Unlock()
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
