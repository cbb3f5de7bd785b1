// aqueduct serve: the server. It opens what the flags name, gives it to internal/app, which puts the parts together,
// and adds what only the program has: local agents, listeners and the greeting.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/internal/app"
	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/blob"
	"aqueduct/store/broker/local"
)

// serveCmd is the server. The groups of flags have files of their own.
type serveCmd struct {
	Listen       string         `default:"127.0.0.1:8080" help:"Address to listen on."`
	Files        stateFlags     `embed:""`
	Demo         bool           `help:"Start the demo agent, which needs no model."`
	DemoPace     time.Duration  `default:"20ms" help:"Pause of the demo agent between two pieces of text."`
	Agent        []agentFlag    `help:"An agent, as id=URL, of one that speaks AG-UI id=URL,protocol=agui; ,resumable after it if the agent can be called again after a restart of the server; ,raw=keep to forward the RAW events and rawEvents of one that speaks AG-UI, which are dropped by default; ,on_leave=cancel if its work ends with the last client that reads it; repeatable." placeholder:"ID=URL"`
	OpenAIAgent  []string       `name:"openai-agent" help:"Id of an --agent that gets the conversation in OpenAI's form; repeatable." placeholder:"ID"`
	DefaultAgent string         `help:"Id of the agent for clients that name none. Otherwise the first that is online of: --agent, the assistant of --model, --demo, --acp, acp-agents, then proxies as they registered first." placeholder:"ID"`
	Auth         string         `enum:"none,token" default:"token" help:"Who may call: token is whoever has the token; none is every program of this machine, on loopback only."`
	TokenFile    ownfile.Secret `help:"File that holds the token. Without it the token is made at the first start, in the file \"token\" of the state folder." placeholder:"FILE"`
	TokenUsers   string         `help:"Tenant whose users the token of --auth token may speak for on /ws/ingress, as their user_id says. Without it a user_id other than its own is refused." placeholder:"TENANT"`
	CORSOrigin   []string       `name:"cors-origin" help:"Origin whose pages may call; repeatable." placeholder:"ORIGIN"`
	AllowedHost  []string       `help:"Name this server is reached by, beside localhost; repeatable." placeholder:"NAME"`
	BaseURL      string         `help:"Where agents reach this server; the listener when not given." placeholder:"URL"`
	Name         string         `help:"Label of this replica; the host's name when not given. One that starts with a label takes over at once from the one before."`
	Drain        time.Duration  `default:"30s" help:"How long work under way may take after SIGTERM or SIGINT; new work is refused meanwhile. 0 ends it at once. A second signal ends the wait."`
	LogFormat    string         `enum:"text,json" default:"text" help:"Form of the log: text or json."`
	OnBusy       string         `enum:"refuse,queue" default:"refuse" help:"What becomes of a message while somebody reads the answer to the one before: refuse it, or queue it as the next turn."`
	PolicyFile   ownfile.Config `help:"Rules for what agents may do without asking; YAML, read again when it changes." placeholder:"FILE"`
	Models       modelFlags     `embed:""`
	ToolsFile    toolsFile      `help:"Tools that agents may have run; YAML." placeholder:"FILE"`
	MCP          mcpFlags       `embed:""`
	Outbound     []string       `help:"Host, host:port or network that tools may be called at although it is not public; repeatable." placeholder:"HOST"`
	Transport    tlsFlags       `embed:""`
	ACP          acpFlags       `embed:""`
	Notify       notifyFlags    `embed:""`
	OIDC         oidcFlags      `embed:""`
	Limits       limitFlags     `embed:""`
	Redact       redactFlags    `embed:""`
	Surface      surfaceFlags   `embed:""`
	Tokens       tokenFlags     `embed:""`
	Audit        auditFlags     `embed:""`
	AgentSecrets agentSecrets   `embed:""`

	Blobs blobFlags `embed:""`
	Spans spanFlags `embed:""`

	// Set by aqueduct mcp --wrap, whose gate this server is then.
	wraps   bool
	claimed *stateLock
	started func(url string, callers *auth.Auth) // is called in place of the greeting
}

// AfterApply implements kong's hook: a list of flags is cut at its commas, and so are the options from their agents.
func (s *serveCmd) AfterApply() (err error) {
	s.Agent, err = withOptions(s.Agent)
	return err
}

// garbage is how much garbage there may be in percent of what is used, unless GOGC says otherwise. By Go's default, 100, the bodies of
// one user took the server twice as far as their budget allows.
const garbage = 50

// Run serves until ctx ends. The claim to the state folder comes first: a second server must not touch a file of it. Then
// follow the flags that can be wrong, the listener, and the database.
func (s *serveCmd) Run(ctx context.Context, to output) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	claimed, err := s.Files.claim(ctx, to.log)
	if err != nil {
		return err
	}
	defer claimed.release()
	s.claimed = claimed
	red, err := s.Redact.open(&s.Files)
	if err != nil {
		return err
	}
	// Before this no line is written: the filter has to be there for the first.
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
	// All are asked before any counts, so that one start names every mistake.
	if err := errors.Join(s.ACP.checkLocal(), s.Tokens.check(), s.Transport.checkURLs(s.Agent), s.Transport.open(log)); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	defer ln.Close() // again, when serving has closed it
	// The address that was bound counts and not the flag, in which a name or a missing host may mean any.
	if err := callers.CheckListener(ln.Addr()); err != nil {
		return err
	}
	st, err := s.openDatabase(ctx)
	if err != nil {
		return err
	}
	// Everything above the database works with the wrapped store, so that no secret is kept by any way but sealed.
	masked := redact.Wrap(st, red.filter, red.vault)
	err = s.serve(ctx, to, log, callers.WithRegistry(auth.NewRegistry(masked, log)), ln, masked, red)
	return errors.Join(err, st.Close())
}

// serve makes the parts of the server and runs them until ctx ends or one of them fails. The address of the inner
// listener is known before the parts are made, because agents are given it.
func (s *serveCmd) serve(ctx context.Context, to output, log *slog.Logger, callers *auth.Auth, ln net.Listener, st store.Store, red redaction) error {
	s.Name = replicaName(s.Name)
	inside, err := s.Transport.inside(ln)
	if err != nil {
		return err
	}
	defer inside.Close() // after Run: the edge drains before its listeners close
	if s.BaseURL == "" {
		s.BaseURL = reachable(inside.Addr())
	}
	blobs, err := s.Blobs.open(ctx, &s.Files, s.Name, log)
	if err != nil {
		return err
	}
	made, err := s.parts(log, callers, st, blobs, red, reachable(inside.Addr()))
	if err != nil {
		return err
	}
	if err := s.loadTools(ctx, made); err != nil {
		return err
	}
	edge, err := s.edge(made.App, ln, inside, log)
	if err != nil {
		return err
	}
	// It belongs to the last stage of all: what drives Turns has been started when it runs.
	greeting := app.Part{Name: "greeting", Run: func(ctx context.Context) error {
		s.ACP.awaitLocal(ctx, made.Gateway, log)
		log.Info("serving", slog.String("name", s.Name), slog.String("replica", made.Replica), slog.Any("database", s.Files.Database), slog.Any("agents", made.Sessions.Agents().IDs()))
		if s.DefaultAgent != "" && !slices.Contains(made.Sessions.Agents().IDs(), s.DefaultAgent) {
			log.Warn("there is no agent of that id yet: prompts that name none are refused until one registers", slog.String("default_agent", s.DefaultAgent))
		}
		if err := s.claimed.serves(s.Transport.url(ln.Addr())); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
		if s.started != nil {
			s.started(s.Transport.url(ln.Addr()), callers)
		} else {
			s.greet(to.out, callers, s.Transport.url(ln.Addr()), log)
		}
		awaitMCP(ctx, made.MCP, log)
		close(made.started)
		<-ctx.Done()
		return nil
	}}
	return s.why(made.Run(ctx, made.beside, append(edge, greeting)), log)
}

// parts are those of the server, and what else of this program runs with it. beside are the proxies of --acp, the
// demo agent, the probes and the watch of the policy file.
// Those of beside begin before what drives Turns and end after it (app.Run): an agent has to be there for as long as
// it may be called.
type parts struct {
	*app.App
	started chan struct{} // closed when its own agents and MCP servers are there
	gate    *outbound.Gate
	beside  []app.Part // at the level of the agents
}

// parts reads the files that the flags name and puts the parts together; nothing runs yet. self is where programs of
// this machine reach the server. What a flag got wrong is an error that names the flag.
func (s *serveCmd) parts(log *slog.Logger, callers *auth.Auth, st store.Store, blobs blob.Store, red redaction, self string) (made parts, err error) {
	made.started = make(chan struct{})
	directory, beside, err := s.agents(self, log)
	if err != nil {
		return made, err
	}
	directory.SetDefault(s.DefaultAgent)
	directory.Alone = s.ACP.unconfined()
	rules, err := openPolicy(string(s.PolicyFile), log)
	if err != nil {
		return made, err
	}
	if made.gate, err = outbound.New(outbound.Config{Allow: s.Outbound}); err != nil {
		return made, fmt.Errorf("--outbound: %w", err)
	}
	registered := httpagent.Config{SelfURL: s.BaseURL, Limits: s.Limits.agent()}
	if registered.Gate, err = outbound.New(outbound.Config{Allow: s.Outbound, Limits: registered.Limits.Outbound()}); err != nil {
		return made, fmt.Errorf("--outbound: %w", err)
	}
	// The key is in memory alone. A token of a local proxy is therefore worth nothing to another process, or after
	// this one.
	own, err := auth.NewKeys(auth.NewKey()) // of this process's own proxies
	if err != nil {
		return made, err
	}
	confined, err := s.confineLocal(log)
	if err != nil {
		return made, err
	}
	proxies, err := s.ACP.localProxies(self, own, confined, log)
	if err != nil {
		return made, err
	}
	metrics := server.NewMetrics()
	gateway := s.ACP.gateway(s.BaseURL, callers.Registry(), metrics, own, &s.Files)
	models, modelClient, err := s.Models.open(log)
	if err != nil {
		return made, err
	}
	if err := s.Transport.checkCalled(models.Upstreams, s.MCP.MCP); err != nil {
		return made, err
	}
	servers, err := s.MCP.config(func() (*child.Confinement, error) { return s.confineServers(log) })
	if err != nil {
		return made, err
	}
	cfg := app.Config{
		Store: st, MCP: servers, Broker: local.New(), Name: s.Name, Drain: app.Drain{Most: s.Drain, Hasten: secondSignal}, Logger: log, Auth: callers, Agents: directory, Registered: registered, Metrics: metrics,
		Secrets: red.hash(), Policy: rules.holder, OnBusy: s.OnBusy, PublicURL: s.Notify.PublicURL, AgentURL: s.BaseURL, Limits: s.Limits.bridge(), QueueLimits: s.Limits.queue(), ToolLimits: s.Limits.tools(),
		Blobs: blobs, ContextBytes: s.Blobs.MaxContextBytes, ToolClient: made.gate.Client(), AuditHeads: s.auditHeadsFile(), Gateway: &gateway,
		Edge: server.Config{
			Version: version(), Hosts: s.AllowedHost, Origins: s.CORSOrigin, Limits: s.Limits.server(), TokenLife: s.Tokens.TokenMaxLife,
			Started: made.started, CheckURL: made.gate.CheckURL, Models: models, ModelClient: modelClient, Proxies: s.proxyAccess(callers.Registry()), NoPage: s.Surface.NoPage, SharedWorkspaces: s.ACP.sharedWorkspaces(),
		},
	}
	if err := s.Notify.apply(&cfg, s.Outbound, &s.Files); err != nil {
		return made, err
	}
	if cfg.Spans, err = s.Spans.config(s.Transport.Insecure); err != nil {
		return made, err
	}
	made.beside = slices.Concat(beside, proxies, []app.Part{
		{Name: "probes", Run: probe(directory, metrics, log)}, {Name: "policy file", Run: rules.watch},
	})
	if made.App, err = app.New(cfg); err == nil {
		rules.record = made.PolicyInForce
	}
	return made, err
}

// edge is what listens. The limits on connections lie below TLS, so that a handshake that never ends counts as a
// connection.
func (s *serveCmd) edge(a *app.App, ln, inside net.Listener, log *slog.Logger) ([]app.Part, error) {
	var handler http.Handler = a.Server
	if s.Auth == "none" {
		var err error
		if handler, err = s.ACP.withoutAgents(handler, log); err != nil {
			return nil, err
		}
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		// net/http logs each handshake and request that is broken, and anyone can send those.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), ConnContext: a.Server.ConnContext,
	}
	// Both listeners count against the same limits, and both are drained at the end.
	listeners := []net.Listener{s.Transport.over(a.Server.Listener(ln))}
	if inside != ln {
		listeners = append(listeners, a.Server.Listener(inside))
	}
	parts := []app.Part{{Name: "http", Run: serveUntilDone(srv, a.Server.Drain, listeners...)}}
	// A listener of its own is not counted against the limits: it is for a scraper alone.
	if s.Surface.MetricsListen == "" {
		return parts, nil
	}
	metrics, err := s.Surface.serveMetrics(a.Metrics, log)
	return append(parts, metrics), err
}

// loadTools registers the tools of --tools-file; without one there are none of a file.
func (s *serveCmd) loadTools(ctx context.Context, made parts) error {
	var list []tools.Definition
	if s.ToolsFile != "" {
		raw, err := ownfile.Config(s.ToolsFile).Read()
		if err != nil {
			return fmt.Errorf("--tools-file: %w", err)
		}
		if list, err = tools.ParseFile(raw); err != nil {
			return fmt.Errorf("--tools-file %s: %w", s.ToolsFile, err)
		}
	}
	if err := made.Tools.Load(ctx, list, made.gate.CheckURL); err != nil {
		return fmt.Errorf("--tools-file %s: %w", s.ToolsFile, err)
	}
	return nil
}

// agents are those that are called by HTTP, and what has to run for them. Those that come with the program stand behind those
// that were named, so that they are the default only without others: the assistant, then the demo agent. self is where they
// reach this server.
func (s *serveCmd) agents(self string, log *slog.Logger) (directory *bridge.Directory, beside []app.Part, err error) {
	given, openAI := slices.Clone(s.Agent), slices.Clone(s.OpenAIAgent)
	add := func(agent agentFlag, served app.Part) {
		given, beside = append(given, agent), append(beside, served)
	}
	if s.Models.Model != "" {
		add(s.Models.assistant(self, log))
		openAI = append(openAI, assistantID)
	}
	if s.Demo {
		add(demoAgent(s.DemoPace))
	}
	secrets, err := s.AgentSecrets.load(given)
	if err != nil {
		return nil, nil, err
	}
	directory, closers, err := addAgents(given, openAI, secrets, s.BaseURL, s.Limits.agent())
	return directory, append(beside, closers...), err
}

// why is what the command returns for the way in which the server ended; asked to end, it returns nil. A server that
// was replaced ends with an error, so that a process manager does not take it for done.
func (s *serveCmd) why(failed error, log *slog.Logger) error {
	if failed == nil {
		log.Info("stopping")
		return nil
	}
	if errors.Is(failed, store.ErrFenced) {
		log.Error("replaced: another process has taken over; this one writes nothing more and leaves", slog.String("name", s.Name))
		return fmt.Errorf("another process named %q has taken over: %w", s.Name, store.ErrFenced)
	}
	return failed
}

// auditKeyFile is that of this server.
func (s *serveCmd) auditKeyFile() string {
	return cmp.Or(string(s.Audit.AuditKeyFile), s.Files.in(auditKeyName))
}

// auditHeadsFile is beside the key.
func (s *serveCmd) auditHeadsFile() string {
	return filepath.Join(filepath.Dir(s.auditKeyFile()), auditHeadsName)
}

// openDatabase opens the database with the audit's key. Where the chain does not have it yet, an entry records that MACs of
// this key begin here, so that entries without one behind it are known to be forged.
func (s *serveCmd) openDatabase(ctx context.Context) (store.Store, error) {
	key, err := loadAuditKey(s.auditKeyFile())
	if err != nil {
		return nil, err
	}
	st, err := s.Files.Database.open(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := audit.Begin(ctx, st, key); err != nil {
		_ = st.Close() // the first error is the cause
		return nil, fmt.Errorf("the audit's key: %w", err)
	}
	return st, nil
}
