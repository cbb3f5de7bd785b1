// Package app puts the parts of a server together: the one place that knows which part needs which. The program and every
// test that needs a whole server start here, so that tests run what is shipped.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/budget"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/livefeed"
	"aqueduct/bridge/mcpclients"
	"aqueduct/bridge/mcpservers"
	"aqueduct/bridge/modelcalls"
	"aqueduct/bridge/notify"
	"aqueduct/bridge/otlp"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/queue"
	"aqueduct/bridge/registry"
	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/server"
	"aqueduct/store"
)

// App is the parts of one server. They are made by New, run by Run, and may be used directly.
type App struct {
	Replica    string // its id
	Bell       *eventlog.Bell
	Events     *eventlog.Log
	Hints      *livefeed.Hub
	Audit      *audit.Log
	Contexts   *contextstore.Service
	Agents     *registry.Registry
	Notifier   *notify.Notifier // nil without Config.Notify
	Tools      *tools.Service
	Sessions   *bridge.Sessions
	Queue      *queue.Queue
	ModelCalls *modelcalls.Service
	Gateway    *acpgateway.Gateway // nil without Config.Gateway
	MCP        *mcpservers.Servers // nil without Config.MCP
	Server     *server.Server
	Metrics    *server.Metrics

	cfg    Config
	spans  *otlp.Exporter // nil without Config.Spans
	levels [levels][]Part
}

// The levels of what runs. Each uses those below it; they start from the lowest and end from the highest.
//
// What runs at each, by the names of the Parts; the edge and what is beside the agents are the program's (Run):
//
//	ground      event log, bell, audit, audit head, hints, context store, heartbeat, credentials, spans
//	upstream    mcp servers, agents, gateway; beside them proxies, agents served here, probes, policy file
//	driving     sessions, queue, tools, webhooks, channels
//	edge        http, metrics, greeting
const (
	ground   = iota // what commits, rings and counts: needed until the last step of everything else
	upstream        // where agents are
	driving         // what starts work: Turns, tool calls, deliveries
	levels          // how many there are
)

// runs adds a Part to a level.
func (a *App) runs(level int, name string, run func(context.Context) error) {
	a.levels[level] = append(a.levels[level], Part{name, run})
}

// New makes the parts of one replica; nothing runs yet, and nothing is written. A new part of the server is made in
// one of the methods that New calls, which also adds what of it runs.
//
// The order is that of need: each method reads the members of App that those before it have set. Where two parts need
// each other, the earlier one gets a function that looks the later one up when it is called, which is not before Run.
func New(cfg Config) (*App, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	a := &App{cfg: cfg, Replica: id.String(), Metrics: cfg.Metrics}
	if err := a.makeNotifier(); err != nil {
		return nil, err
	}
	a.makeGround()
	if err := a.makeSpans(); err != nil {
		return nil, err
	}
	if err := a.makeEngine(); err != nil {
		return nil, err
	}
	if err := a.makeRegistry(); err != nil {
		return nil, err
	}
	a.makeGateway()
	if err := a.makeServer(); err != nil {
		return nil, err
	}
	return a, nil
}

// makeGround makes what keeps and distributes.
func (a *App) makeGround() {
	cfg := a.cfg
	a.Bell = eventlog.NewBell(cfg.Broker)
	a.Events = eventlog.New(eventlog.Config{Store: cfg.Store, Bell: a.Bell, Replica: a.Replica, Logger: cfg.Logger, Observe: cfg.Metrics.Committed})
	a.Audit = audit.NewLog(cfg.Store, cfg.Logger, nil)
	a.Contexts = contextstore.New(contextstore.Config{Store: cfg.Store, Blobs: cfg.Blobs, Secrets: cfg.Secrets, UserBytes: cfg.ContextBytes, Limited: cfg.Metrics.Meter().Limited, Logger: cfg.Logger})
	a.Hints = livefeed.New(livefeed.Config{Sessions: cfg.Store, Dropped: cfg.Metrics.HintDropped})
	heads := audit.Exporter{
		Store: cfg.Store, Log: cfg.Logger, Gauge: cfg.Metrics.AuditHead, Kick: a.Notifier.Kick, File: cfg.AuditHeads,
		Rows: func(h audit.Head, now time.Time) []store.OutboxItem { return a.Notifier.HeadRows(h.Seq, h.Hash, now) },
	}
	a.runs(ground, "event log", a.Events.Run)
	a.runs(ground, "bell", a.Bell.Run)
	a.runs(ground, "audit", a.Audit.Run)
	a.runs(ground, "audit head", heads.Run)
	a.runs(ground, "hints", a.Hints.Run)
	a.runs(ground, "context store", a.Contexts.Run)
	a.runs(ground, "heartbeat", func(ctx context.Context) error { return bridge.Beat(ctx, cfg.Store, a.Replica, cfg.Logger) })
	if credentials := cfg.Auth.Registry(); credentials != nil {
		a.runs(ground, "credentials", credentials.Run)
	}
}

// makeNotifier makes the sender of notices and callbacks. A nil Notifier takes notices and sends none.
func (a *App) makeNotifier() (err error) {
	if a.cfg.Notify == nil {
		return nil
	}
	cfg := *a.cfg.Notify
	cfg.Store, cfg.Logger = a.cfg.Store, a.cfg.Logger
	a.Notifier, err = notify.New(cfg)
	return err
}

// makeSpans makes the exporter of spans. It is on the ground: Turns end until the last step of what drives them.
func (a *App) makeSpans() error {
	if a.cfg.Spans == nil {
		return nil
	}
	cfg := *a.cfg.Spans
	cfg.Store, cfg.Logger, cfg.Replica, cfg.Count = a.cfg.Store, a.cfg.Logger, a.Replica, a.Metrics.SpansOfTurn
	spans, err := otlp.New(cfg)
	if err != nil {
		return err
	}
	a.spans = spans
	a.runs(ground, "spans", spans.Run)
	return nil
}

// turnEnded passes on that a Turn has ended here. It must be quick (bridge.Config.TurnEnded), so neither of the two
// waits for anything.
func (a *App) turnEnded(turnID string) {
	if a.spans != nil {
		a.spans.TurnEnded(turnID)
	}
	a.Queue.TurnEnded()
}

// makeEngine makes what drives Turns and executes tools.
func (a *App) makeEngine() error {
	cfg := a.cfg
	notices := approval.Notices{Rows: a.Notifier.Rows, Kick: a.Notifier.Kick, Ring: a.Bell.Ring}
	inForce := policy.Default
	if cfg.Policy != nil {
		inForce = cfg.Policy.Current
	}
	meter := cfg.Metrics.Meter()
	if cfg.Meter != nil {
		meter = *cfg.Meter
	}
	executed := tools.Config{
		Store: cfg.Store, Hash: cfg.Secrets, Replica: a.Replica, Policy: inForce, Keep: a.Events.Keep, Ring: func(id string) { a.Bell.Ring(id) },
		Listen: a.Bell.Watch, Listeners: a.Bell.Listeners, Callback: bridge.ToldByCallback, Client: cfg.ToolClient, Meter: cfg.Metrics.ToolMeter(),
		Logger: cfg.Logger, Notices: notices, Limits: cfg.ToolLimits, Unconfined: cfg.Agents.Unconfined,
	}
	if err := a.makeMCPServers(&executed); err != nil {
		return err
	}
	limits := cfg.Edge.Models.Budgets()
	if len(limits) > 0 {
		extends := budget.Runtime{Store: cfg.Store, List: limits}
		executed.Own, executed.OwnRuntime, executed.OwnVerdict = []store.Tool{budget.Tool()}, extends, extends.Verdict
	}
	a.Tools = tools.New(executed)
	a.Sessions = bridge.New(bridge.Config{
		Store: cfg.Store, Filter: cfg.Secrets.Filter, Hash: cfg.Secrets, Log: a.Events, Bell: a.Bell, Replica: a.Replica, Agents: cfg.Agents,
		Logger: cfg.Logger, Meter: meter, TurnEnded: a.turnEnded, OnBusy: cfg.OnBusy, Limits: cfg.Limits, Policy: cfg.Policy, Tools: a.Tools, Contexts: a.Contexts, Notices: notices, Hints: a.Hints,
		PublicURL: cfg.PublicURL, AgentURL: cfg.AgentURL, Audit: a.Audit, Models: len(cfg.Edge.Models.Upstreams) > 0,
		// ModelCalls is made below, because it has to know the engine: who calls is known there.
		EndCalls: func(ctx context.Context) error { return a.ModelCalls.EndAbandoned(ctx) },
	})
	a.makeModelCalls(limits)
	a.Queue = queue.New(queue.Config{
		Store: cfg.Store, Sessions: a.Sessions, Replica: a.Replica, Vault: cfg.Secrets.Vault, Policy: cfg.Policy, Limits: cfg.QueueLimits, Logger: cfg.Logger,
	})
	if !cfg.Agents.AddHidden(bridge.ClientAgent, mcpclients.New(cfg.Store)) {
		return fmt.Errorf("there is an agent called %q, which is what MCP clients are called", bridge.ClientAgent)
	}
	a.runs(driving, "sessions", a.drive)
	a.runs(driving, "queue", a.Queue.Run)
	a.runs(driving, "tools", a.Tools.Run)
	if a.Notifier != nil {
		a.runs(driving, "webhooks", a.Notifier.Run)
	}
	return nil
}

// makeModelCalls makes what keeps calls of models and bounds them. Who calls is known to the engine.
func (a *App) makeModelCalls(limits []budget.Budget) {
	cfg := modelcalls.Config{
		Store: a.cfg.Store, Caller: a.Sessions.AgentRequests().Caller, Replica: a.Replica, Currency: a.cfg.Edge.Models.Currency, Logger: a.cfg.Logger,
	}
	if len(limits) > 0 {
		cfg.Budgets = budget.New(limits, a.cfg.Store, a.Tools)
	}
	a.ModelCalls = modelcalls.New(cfg)
}

// makeMCPServers makes the connections to MCP servers, and has their tools executed there. They run where agents are: a call
// needs them until its end.
func (a *App) makeMCPServers(executed *tools.Config) error {
	if a.cfg.MCP == nil {
		return nil
	}
	cfg := *a.cfg.MCP
	cfg.ResultBytes, cfg.Logger = a.cfg.ToolLimits.ResultBytes, a.cfg.Logger
	// Tools is made behind the servers, whose tools it executes; they publish only while they run.
	cfg.Publish = func(ctx context.Context, server string, list []store.Tool) error {
		return a.Tools.Publish(ctx, server, list)
	}
	servers, err := mcpservers.New(cfg)
	if err != nil {
		return err
	}
	a.MCP, executed.MCP, executed.Servers = servers, servers, servers.Names()
	a.runs(upstream, "mcp servers", servers.Run)
	return nil
}

// drive runs the Sessions. A Turn that is taken up again needs its Agent, which may be known by its proxy alone, so the
// gateway has to read its proxies first.
func (a *App) drive(ctx context.Context) error {
	if a.Gateway != nil {
		select {
		case <-a.Gateway.Began():
		case <-ctx.Done():
			return nil
		}
	}
	return a.Sessions.Run(ctx)
}

// makeRegistry makes the directory of agents. It runs where agents are, behind those that put the server's own agents into it.
func (a *App) makeRegistry() (err error) {
	cfg, call := a.cfg, a.cfg.Registered
	if call.Gate == nil {
		if call.Gate, err = outbound.New(outbound.Config{Limits: call.Limits.Outbound()}); err != nil {
			return err
		}
	}
	a.Agents = registry.New(registry.Config{
		Store: cfg.Store, Directory: cfg.Agents, Secrets: cfg.Secrets, CheckURL: call.Gate.CheckURL, Logger: cfg.Logger,
		Make: func(u registry.Upstream) bridge.Agent {
			agent := call // its limits and its way out are those of all
			agent.ID, agent.URL, agent.Header, agent.Secret = u.ID, u.URL, u.Header, u.Secret
			agent.Protocol, agent.Resumable, agent.KeepRaw = httpagent.Protocol(u.Protocol), u.Resumable, u.KeepRaw
			return httpagent.New(agent)
		},
	})
	a.runs(upstream, "agents", a.Agents.Run)
	return nil
}

// makeGateway makes the link to agents behind proxies. It is made behind the engine, which gets what agents send without
// a prompt.
func (a *App) makeGateway() {
	if a.cfg.Gateway == nil {
		return
	}
	cfg := *a.cfg.Gateway
	cfg.Registry, cfg.Directory = acpgateway.NewRegistry(a.cfg.Store), a.cfg.Agents
	cfg.Replica, cfg.Hash, cfg.Logger, cfg.Hints = a.Replica, a.cfg.Secrets, a.cfg.Logger, a.Hints
	cfg.NotifyActivity, cfg.Note, cfg.Stalled = a.Sessions.NotifyActivity, a.Events.Note, a.Events.Stalled
	a.Gateway = acpgateway.New(cfg)
	a.runs(upstream, "gateway", a.Gateway.Run)
}

// makeServer makes the HTTP edge over all other parts.
func (a *App) makeServer() (err error) {
	cfg := a.cfg.Edge
	cfg.Sessions, cfg.Queue, cfg.ModelCalls, cfg.Approvals, cfg.Tools, cfg.Agents, cfg.Hints, cfg.Audit, cfg.Contexts = a.Sessions, a.Queue, a.ModelCalls, a.Sessions.Approvals(), a.Tools, a.Agents, a.Hints, a.Audit, a.Contexts
	cfg.Auth, cfg.Metrics, cfg.PublicURL = a.cfg.Auth, a.cfg.Metrics, a.cfg.PublicURL
	cfg.ProxyRegistry = acpgateway.NewRegistry(a.cfg.Store)
	if cfg.Logger == nil {
		cfg.Logger = a.cfg.Logger
	}
	if cfg.Store == nil {
		cfg.Store = a.cfg.Store
	}
	if a.Gateway != nil { // a nil *Gateway in an interface is not nil
		cfg.Gateway = a.Gateway
		if cfg.Controller == nil {
			cfg.Controller = a.Gateway.Controller()
		}
	}
	cfg.Kick = a.Notifier.Kick
	if a.Server, err = server.New(cfg); err != nil {
		return err
	}
	a.Bell.OnAny(a.Server.Rung)
	a.Notifier.OnLanded(a.Server.Landed)
	if a.Notifier != nil {
		a.runs(driving, "channels", a.Server.Carry)
	}
	return nil
}

// Run registers the replica, which fences its predecessor of the same name. It runs the parts until ctx ends or one of them
// fails; a failure is a *Failure. When ctx ends, work under way may finish first (Config.Drain). Run returns when all parts
// have ended.
//
// beside are Parts at the level of the agents, which outlives the driving level; edge are the listeners that serve Server. edge
// starts last and ends first: no more requests and streams, then no more driving, then the last commit. After that the replica
// is fenced, so that another can take over its Sessions at once.
func (a *App) Run(ctx context.Context, beside, edge []Part) error {
	// On a full disk the server has to start, so that threads can be deleted.
	if err := a.cfg.Store.Register(store.Deleting(ctx), store.Replica{ID: a.Replica, Name: a.cfg.Name, SeenAt: time.Now()}); err != nil {
		return err
	}
	defer a.leave(ctx)
	failed, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	for _, parts := range [][]Part{a.levels[ground], slices.Concat(a.levels[upstream], beside), a.levels[driving], edge} {
		// The defers end the stages from the last one started to the first, and only then leave gives up the
		// Sessions.
		s := newStage(ctx, fail)
		defer s.end()
		for _, p := range parts {
			s.run(p)
		}
	}
	select {
	case <-ctx.Done():
		a.drain(failed)
	case <-failed.Done():
	}
	var why *Failure
	if errors.As(context.Cause(failed), &why) {
		return why
	}
	return nil
}

// leaveTime bounds how long a server that ends tries to give up its Sessions. When it fails, the others notice by the
// heartbeat that is missing.
const leaveTime = 5 * time.Second

func (a *App) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := a.cfg.Store.Fence(ctx, a.Replica); err != nil {
		a.cfg.Logger.Warn("replica not fenced on leaving; the others wait until its beat is missing", slog.Any("error", err))
	}
}
