package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/hints"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/notify"
	"aqueduct/bridge/notify/link"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/broker/local"
)

// serveCmd is the server.
type serveCmd struct {
	Listen       string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	Database     databaseFlag  `default:"sqlite:./data/aqueduct.db" help:"sqlite:PATH or postgres://…"`
	Demo         bool          `help:"Start the demo agent, which needs no model."`
	DemoPace     time.Duration `default:"20ms" help:"Pause of the demo agent between two pieces of text."`
	Agent        []agentFlag   `help:"An agent, as id=URL; repeatable." placeholder:"ID=URL"`
	OpenAIAgent  []string      `name:"openai-agent" help:"Id of an --agent that gets the conversation in OpenAI's form; repeatable." placeholder:"ID"`
	DefaultAgent string        `help:"Id of the agent for clients that name none. Otherwise the first that is online of: --agent, --demo, --acp, acp-agents, then proxies as they registered first." placeholder:"ID"`
	Auth         string        `enum:"none,token" default:"token" help:"Who may call: token is whoever has the token; none is every program of this machine, on loopback only."`
	TokenFile    string        `help:"File that holds the token. Without it the token is made at the first start, in the file \"token\" beside the SQLite database, else beside the signing key." placeholder:"FILE"`
	TokenUsers   string        `help:"Tenant whose users the token of --auth token may speak for on /ws/ingress, as their user_id says. Without it a user_id other than its own is refused." placeholder:"TENANT"`
	CORSOrigin   []string      `name:"cors-origin" help:"Origin whose pages may call; repeatable." placeholder:"ORIGIN"`
	AllowedHost  []string      `help:"Name this server is reached by, beside localhost; repeatable." placeholder:"NAME"`
	BaseURL      string        `help:"Where agents reach this server; the listener when not given." placeholder:"URL"`
	Name         string        `help:"Label of this replica; the host's name when not given. One that starts with a label takes over at once from the one before."`
	LogFormat    string        `enum:"text,json" default:"text" help:"Form of the log: text or json."`
	OnBusy       string        `enum:"refuse,queue" default:"refuse" help:"What becomes of a message while somebody reads the answer to the one before: refuse it, or queue it as the next turn."`
	PolicyFile   string        `help:"Rules for what agents may do without asking; YAML, read again when it changes." placeholder:"FILE"`
	ToolsFile    string        `help:"Tools that agents may have run; YAML." placeholder:"FILE"`
	Outbound     []string      `help:"Host, host:port or network that tools may be called at although it is not public; repeatable." placeholder:"HOST"`
	Transport    tlsFlags      `embed:""`
	ACP          acpFlags      `embed:""`
	Notify       notifyFlags   `embed:""`
	OIDC         oidcFlags     `embed:""`
	Limits       limitFlags    `embed:""`
	Redact       redactFlags   `embed:""`
	Surface      surfaceFlags  `embed:""`
	Tokens       tokenFlags    `embed:""`
	Audit        auditFlags    `embed:""`
	AgentSecrets agentSecrets  `embed:""`
}

// Run serves until ctx ends.
func (s *serveCmd) Run(ctx context.Context, to output) error {
	red, err := s.Redact.open(s.Database)
	if err != nil {
		return err
	}
	log := newLogger(s.LogFormat, to.log, red.filter)
	callers, err := s.callers()
	if err != nil {
		return err
	}
	provider, err := s.OIDC.provider(s.Auth)
	if err != nil {
		return err
	}
	callers = callers.WithOIDC(provider)
	if err := errors.Join(s.ACP.checkLocal(), s.Tokens.check(), s.Transport.checkURLs(s.Agent), s.Transport.open(log)); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	defer ln.Close() // again, when serving has closed it
	if err := callers.CheckListener(ln.Addr()); err != nil {
		return err
	}
	st, err := s.openDatabase(ctx)
	if err != nil {
		return err
	}
	masked := redact.Wrap(st, red.filter, red.vault)
	err = s.serve(ctx, to, log, callers.WithRegistry(auth.NewRegistry(masked, log)), ln, masked, red)
	return errors.Join(err, st.Close())
}

// serve starts the rooms from the ground up and ends them from the top down: first no more
// requests and streams, then no more driving, then the last commit.
func (s *serveCmd) serve(ctx context.Context, to output, log *slog.Logger, callers *auth.Auth, ln net.Listener, st store.Store, red redaction) error {
	s.Name = replicaName(s.Name)
	replica, err := register(ctx, st, s.Name)
	if err != nil {
		return err
	}
	defer leave(ctx, st, replica.ID, log) // when all stages have ended
	inside, err := s.Transport.inside(ln)
	if err != nil {
		return err
	}
	defer inside.Close() // after the stages: the edge drains before its listeners close
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ground, upstream, driving, edge := newStage(ctx, fail), newStage(ctx, fail), newStage(ctx, fail), newStage(ctx, fail)
	for _, stage := range []*stage{ground, upstream, driving, edge} {
		defer stage.end() // edge first
	}
	if s.BaseURL == "" {
		s.BaseURL = reachable(inside.Addr())
	}
	directory, err := s.agents(upstream)
	if err != nil {
		return err
	}
	directory.SetDefault(s.DefaultAgent)
	metrics := server.NewMetrics()
	own, err := auth.NewKeys(auth.NewKey()) // of this process's own proxies
	if err != nil {
		return err
	}
	r, err := s.rooms(log, callers, st, replica.ID, directory, metrics, own, red)
	if err != nil {
		return err
	}
	if err := s.loadTools(ctx, r); err != nil {
		return err
	}
	upstream.run("probes", probe(directory, metrics, log))
	upstream.run("gateway", r.gateway.Run)
	ground.run("event log", r.events.Run)
	ground.run("bell", r.bell.Run)
	ground.run("audit", r.audit.Run)
	ground.run("audit head", s.auditExporter(st, log, metrics, r.notify).Run)
	ground.run("hints", r.hints.Run)
	ground.run("credentials", r.registry.Run)
	ground.run("heartbeat", func(ctx context.Context) error { return bridge.Beat(ctx, st, replica.ID, log) })
	driving.run("sessions", func(ctx context.Context) error {
		select { // a Turn that is taken up needs its Agent, which may be known by its proxy alone
		case <-r.gateway.Began():
			return r.sessions.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	driving.run("tools", r.tools.Run)
	driving.run("policy file", r.rules.watch)
	if r.notify != nil {
		driving.run("webhooks", r.notify.Run)
		driving.run("channels", r.handler.Carry)
	}
	handler, err := s.withoutAgents(r.handler, log)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), ConnContext: r.handler.ConnContext,
	}
	listeners := []net.Listener{s.Transport.over(r.handler.Listener(ln))}
	if inside != ln {
		listeners = append(listeners, r.handler.Listener(inside))
	}
	edge.run("http", serveUntilDone(srv, r.handler.Drain, listeners...))
	if err := s.Surface.serveMetrics(edge, metrics, log); err != nil {
		return err
	}
	if err := s.runLocal(ctx, upstream, inside, own, r.gateway, log); err != nil {
		return err
	}
	log.Info("serving", slog.String("name", s.Name), slog.String("replica", replica.ID), slog.Any("database", s.Database), slog.Any("agents", directory.IDs()))
	s.greet(to.out, callers, s.Transport.url(ln.Addr()), log)
	<-ctx.Done()
	return s.why(context.Cause(ctx), log)
}

// rooms are the parts of a server that know each other.
type rooms struct {
	rules    *policyFile
	registry *auth.Registry
	gate     *outbound.Gate
	tools    *tools.Service
	notify   *notify.Notifier
	bell     *eventlog.Bell
	events   *eventlog.Log
	sessions *bridge.Sessions
	hints    *hints.Hub
	gateway  *acpgateway.Gateway
	handler  *server.Server
	audit    *audit.Log
}

// rooms makes them; nothing runs yet.
func (s *serveCmd) rooms(log *slog.Logger, callers *auth.Auth, st store.Store, replica string, agents *bridge.Directory, metrics *server.Metrics, own *auth.Keys, red redaction) (r rooms, err error) {
	r.registry = callers.Registry()
	if r.rules, err = openPolicy(s.PolicyFile, log); err != nil {
		return r, err
	}
	if r.gate, err = outbound.New(outbound.Config{Allow: s.Outbound}); err != nil {
		return r, fmt.Errorf("--outbound: %w", err)
	}
	var links *link.Book
	hooks, err := s.Notify.channels()
	if err != nil {
		return r, err
	}
	if r.notify, links, err = s.notifier(st, log, hooks); err != nil {
		return r, err
	}
	r.audit = audit.NewLog(st, log, nil)
	notices := inbox.Notices{Rows: r.notify.Rows, Kick: r.notify.Kick}
	r.bell = eventlog.NewBell(local.New())
	r.events = eventlog.New(eventlog.Config{Store: st, Bell: r.bell, Replica: replica, Logger: log, Observe: metrics.Committed})
	r.tools = tools.New(tools.Config{
		Store: st, Hash: red.hash(), Replica: replica, Policy: r.rules.holder.Current, Keep: r.events.Keep, Ring: func(id string) { r.bell.Ring(id) }, Listen: r.bell.Overhear,
		Listeners: r.bell.Listeners, Callback: bridge.ToldByCallback, Client: r.gate.Client(), Meter: metrics.ToolMeter(), Logger: log, Notices: notices,
		Limits: s.Limits.Abuse.tools(tools.Limits{ApprovalTTL: s.Limits.ApprovalTTL, Timeout: s.Limits.ToolTimeout}),
	})
	r.hints = hints.New(hints.Config{Sessions: st, Dropped: metrics.HintDropped})
	r.sessions = bridge.New(bridge.Config{
		Store: st, Filter: red.filter, Hash: red.hash(), Log: r.events, Bell: r.bell, Replica: replica, Agents: agents, Logger: log, Meter: metrics.Meter(),
		OnBusy: s.OnBusy, Limits: s.Limits.bridge(), Policy: r.rules.holder, Tools: r.tools, Notices: notices, Hints: r.hints,
		PublicURL: s.Notify.PublicURL, Audit: r.audit,
	})
	r.gateway = s.gatewayOf(log, st, &r, agents, metrics, own, red.hash())
	r.handler, err = server.New(server.Config{
		Sessions: r.sessions, Store: st, Auth: callers, Metrics: metrics, Logger: log, Version: version(),
		Hosts: s.AllowedHost, Origins: s.CORSOrigin, Limits: s.Limits.server(), TokenLife: s.Tokens.TokenMaxLife,
		Tools: r.tools, CheckURL: r.gate.CheckURL, Links: links, Webhooks: hooks, PublicURL: s.Notify.PublicURL,
		Controller: r.gateway, Gateway: r.gateway, Proxies: s.proxyAccess(r.registry), Hints: r.hints, Audit: r.audit, NoPage: s.Surface.NoPage,
	})
	return r, err
}

// loadTools registers the tools of --tools-file; without one there are none of a file.
func (s *serveCmd) loadTools(ctx context.Context, r rooms) error {
	var list []tools.Definition
	if s.ToolsFile != "" {
		raw, err := os.ReadFile(s.ToolsFile)
		if err != nil {
			return fmt.Errorf("--tools-file: %w", err)
		}
		if list, err = tools.ParseFile(raw); err != nil {
			return fmt.Errorf("--tools-file %s: %w", s.ToolsFile, err)
		}
	}
	if err := r.tools.Load(ctx, list, r.gate.CheckURL); err != nil {
		return fmt.Errorf("--tools-file %s: %w", s.ToolsFile, err)
	}
	return nil
}

func (s *serveCmd) agents(upstream *stage) (*bridge.Directory, error) {
	given := s.Agent
	if s.Demo {
		demo, err := startDemo(upstream, s.DemoPace)
		if err != nil {
			return nil, err
		}
		given = append(given[:len(given):len(given)], demo)
	}
	secrets, err := s.AgentSecrets.load(given)
	if err != nil {
		return nil, err
	}
	return addAgents(upstream, given, s.OpenAIAgent, secrets, s.BaseURL, s.Limits.agent())
}

// why tells a wish to stop from a reason to.
func (s *serveCmd) why(cause error, log *slog.Logger) error {
	var f *failure
	if !errors.As(cause, &f) {
		log.Info("stopping")
		return nil
	}
	if errors.Is(cause, store.ErrFenced) {
		log.Error("replaced: another process has taken over; this one writes nothing more and leaves", slog.String("name", s.Name))
		return fmt.Errorf("another process named %q has taken over: %w", s.Name, store.ErrFenced)
	}
	return cause
}
