// How the edge is put together: one echo router, one guard in front of it, and one handler for each resource.
// internal/app makes the Config; nothing else in the project knows which handlers there are.

package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/livefeed"
	"aqueduct/bridge/modelcalls"
	"aqueduct/bridge/registry"
	"aqueduct/bridge/tools"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decide"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/llmproxy"
	"aqueduct/server/mcpserver"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Config is what a Server needs. Sessions, Queue, ModelCalls, Approvals, Store, Auth, Logger and Tools must be there; for the others the
// comment names what nil means. It is read once, by New.
type Config struct {
	Sessions *bridge.Sessions
	// Queue keeps prompts that can wait.
	Queue channel.Queue
	// Approvals settles Questions: those of Sessions.
	Approvals *approval.Service
	// Store is for reads, always with the caller's Scope, and for Ping.
	Store   store.Store
	Auth    *auth.Auth
	Metrics *Metrics
	Logger  *slog.Logger
	Version string
	// Hosts are the names this server is reached by, beside loopback's.
	Hosts []string
	// Origins are those of pages on other origins that may call, as in https://app.example.
	Origins []string
	Limits  limit.Limits
	// Controller steers agents behind proxies; nil without a gateway.
	Controller bridge.Controller
	// TokenLife is the longest that POST /api/tokens lets a token live; 0 is auth.MaxTokenLife.
	TokenLife time.Duration
	// Proxies is how those get their tokens; nil lets none register.
	Proxies *ProxyAccess
	// ProxyRegistry keeps the proxies and their sandbox instances.
	ProxyRegistry bridge.ProxyRegistry
	// Hints is what /ws/client sends; nil sends nothing.
	Hints *livefeed.Hub
	// Agents is the directory of agents.
	Agents *registry.Registry
	// Tools is what agents have executed; CheckURL decides which addresses tools may have.
	Tools    *tools.Service
	CheckURL func(string) error
	// Contexts is what agents and users store under a key.
	Contexts *contextstore.Service
	// Models are the upstreams of the model proxy, ModelClient the way to them; without upstreams it knows no model.
	Models      llmproxy.Upstreams
	ModelClient *http.Client
	// ModelCalls keeps what is called of them.
	ModelCalls *modelcalls.Service
	// Links are the signed links to one decision; nil takes none.
	Links *decide.Book
	// Started is closed when the agents and tools that this server starts itself are there. The server is not ready before
	// that. With nil it does not wait.
	Started <-chan struct{}
	// SharedWorkspaces are the ids of agents that can reach the folders of other threads than their own; people are shown it.
	SharedWorkspaces []string
	// NoPage leaves the page at "/" out.
	NoPage bool
	// Webhooks are the channels that talk by signed POSTs; see Carry.
	Webhooks channel.Webhooks
	// Kick has the outbox sent when a delivery to a channel was committed; nil is not called.
	Kick func()
	// Audit keeps refused attempts, sign-ins and controls; nil keeps none.
	Audit *audit.Log
	// PublicURL is where people reach this server; "" is wherever a request comes in.
	PublicURL string
	// Gateway is /ws/agent, which knows its own callers; nil is none.
	Gateway http.Handler
}

// Server is the HTTP handler of everything Aqueduct serves. It starts no goroutine of its own. Its end is Leave, Drain,
// and then the Shutdown of the http.Server that it is the handler of.
type Server struct {
	echo  *echo.Echo
	leave context.CancelFunc // ends being ready
	drain context.CancelFunc // cuts streams
	// sockets and conns are counted here, because net/http knows neither WebSockets nor who is behind a connection.
	sockets *limit.Sockets
	conns   *limit.Connections
	// hook has the relay of channels with callbacks, which Carry runs.
	hook *channel.WebhookHandler
}

// New puts the resources together behind one guard. Every route has to be in the table of roles (server/route); one
// that is not makes New fail, so that a new route cannot be open by oversight. The guard runs before the router: a
// request from a foreign Host or Origin learns nothing, not even which routes there are. An error leaves nothing
// running: the only thing that was started is the context of draining, which is cancelled.
func New(cfg Config) (*Server, error) {
	cfg.Limits = cfg.Limits.WithDefaults()
	draining, drain := context.WithCancel(context.Background())
	leaving, leave := context.WithCancel(draining)
	stop := func() { leave(); drain() }
	// The parts that bound things are made first: the gauges need them, and handlers get them finished.
	meter := cfg.Metrics.limitMeter()
	bodies := limit.NewBodyBudget(cfg.Limits, func() { meter.Refused("bodies") })
	in := decode.New(cfg.Limits, bodies, limit.NewBrakes(cfg.Limits, meter))
	open := limit.NewSockets(cfg.Limits, draining, meter)
	guard, err := newGuard(cfg, in, open)
	if err != nil {
		stop()
		return nil, err
	}
	// Failed registrations have a brake of their own and do not count against people at the same address.
	register := newProxyRegister(cfg, in)
	conns := limit.NewConnections(cfg.Limits, func() { meter.Evicted("connection") })
	meter.Watch(conns, open, bodies)
	channels, hook, err := channel.New(channel.Config{
		Sessions: cfg.Sessions, Queue: cfg.Queue, Approvals: cfg.Approvals, Store: cfg.Store, Auth: cfg.Auth, In: in, Open: open, Log: cfg.Logger, Audit: cfg.Audit, Kick: cfg.Kick,
	}, cfg.Webhooks)
	if err != nil {
		stop()
		return nil, err
	}
	e := echo.New()
	e.JSONSerializer = plainJSON{}
	e.IPExtractor = echo.ExtractIPDirect() // X-Forwarded-For is whatever the caller likes
	e.HTTPErrorHandler = (&failures{log: cfg.Logger, audit: cfg.Audit}).handle
	// Pre runs before the router, so unknown paths pass the guard like known ones. recovered is the outer of the two.
	e.Pre(recovered(e.HTTPErrorHandler), guard.check)
	queries, err := listQueries()
	if err != nil {
		stop()
		return nil, err
	}
	to := route.New(e, guard.authenticate, (&programs{auth: cfg.Auth, sessions: cfg.Sessions, in: in}).exchange, queries)
	for _, r := range append(resources(cfg, in, open, leaving, draining), register, channels, hook) {
		r.Mount(to)
	}
	if err := to.Check(); err != nil {
		stop()
		return nil, err
	}
	return &Server{echo: e, leave: leave, drain: drain, sockets: open, conns: conns, hook: hook}, nil
}

// resources makes the handlers, one for each resource of the API. A handler gets the parts that it uses and no
// Config, so that its fields show what it depends on. The order has no meaning: no two handlers mount the same route,
// and the router looks at paths alone.
func resources(cfg Config, in *decode.Decoder, open *limit.Sockets, leaving, draining context.Context) []route.Resource {
	out := &streams{limits: cfg.Limits, metrics: cfg.Metrics, log: cfg.Logger, draining: draining}
	traces := &trace{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out}
	deeds := proxyDeeds{known: cfg.ProxyRegistry, audit: cfg.Audit}
	callers := agentCallers{sessions: cfg.Sessions, in: in}
	chats := &threads{sessions: cfg.Sessions, approvals: cfg.Approvals, store: cfg.Store, in: in, out: out}
	return []route.Resource{
		&chat{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out},
		&capabilities{agents: cfg.Sessions.Agents(), registry: cfg.Agents, version: cfg.Version},
		chats,
		&parts{threads: chats, entries: cfg.Contexts, agents: callers},
		&shares{threads: chats, sessions: cfg.Sessions, store: cfg.Store, in: in},
		&threadControl{threads: chats, sessions: cfg.Sessions, store: cfg.Store, control: cfg.Controller, in: in, audit: cfg.Audit},
		&proxyList{known: deeds.known, control: cfg.Controller, deeds: deeds},
		&proxyControl{threads: chats, known: deeds.known, control: cfg.Controller, in: in, deeds: deeds},
		&agentSocket{gateway: cfg.Gateway},
		&grants{approvals: cfg.Approvals, store: cfg.Store, in: in},
		&delegations{approvals: cfg.Approvals, store: cfg.Store, in: in},
		&auditPage{store: cfg.Store, in: in},
		&agents{registry: cfg.Agents, sessions: callers, in: in, shared: cfg.SharedWorkspaces},
		&agentCalls{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out, agents: callers, audit: cfg.Audit},
		&toolProxy{sessions: cfg.Sessions, store: cfg.Store, in: in, agents: callers, draining: draining},
		&toolRegistry{tools: cfg.Tools, store: cfg.Store, checkURL: cfg.CheckURL, in: in, agents: callers},
		&permissionSockets{sessions: cfg.Sessions, approvals: cfg.Approvals, store: cfg.Store, auth: cfg.Auth, in: in, open: open, log: cfg.Logger},
		&clientSockets{hub: cfg.Hints, store: cfg.Store, in: in, open: open},
		&runs{sessions: cfg.Sessions, queue: cfg.Queue, store: cfg.Store, in: in, out: out, trace: traces},
		traces,
		&attachments{entries: cfg.Contexts, in: in, public: cfg.PublicURL},
		&contexts{entries: cfg.Contexts, agents: callers, in: in},
		&sessionMessages{threads: chats, agents: callers, in: in},
		&approvals{approvals: cfg.Approvals, store: cfg.Store, control: cfg.Controller, in: in, out: out},
		&toolCalls{approvals: cfg.Approvals, sessions: cfg.Sessions, store: cfg.Store, in: in},
		decide.New(cfg.Approvals, cfg.Store, cfg.Links, cfg.Auth, in),
		&session{auth: cfg.Auth, in: in, audit: cfg.Audit},
		&tickets{auth: cfg.Auth, in: in},
		&signIn{auth: cfg.Auth, audit: cfg.Audit, in: in, public: cfg.PublicURL, log: cfg.Logger},
		newTokens(cfg, in),
		&serviceAccounts{registry: cfg.Auth.Registry(), in: in},
		&health{store: cfg.Store, leaving: leaving, started: cfg.Started},
		&metricsPage{metrics: cfg.Metrics},
		&limitsPage{limits: cfg.Limits, sessions: cfg.Sessions, contexts: cfg.Contexts},
		&openAPI{},
		&page{off: cfg.NoPage},
		mcpserver.New(mcpserver.Config{
			Version: cfg.Version, Requests: cfg.Sessions.AgentRequests(), Calls: cfg.Sessions.ClientCalls(), Approvals: cfg.Approvals, Store: cfg.Store,
			Agent: callers.counted, IsAgent: hasRunToken, In: in, Logger: cfg.Logger, Draining: draining,
		}),
		llmproxy.New(llmproxy.Config{
			Upstreams: cfg.Models, Client: cfg.ModelClient, Calls: cfg.ModelCalls, Caller: callers.counted, In: in, Draining: draining,
		}),
	}
}

// ServeHTTP implements http.Handler. Any number of requests run at once; all state is in the parts.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Leave makes the server not ready, so that a load balancer sends requests elsewhere. The server still handles requests that
// come. The engine refuses new work.
func (s *Server) Leave() { s.leave() }

// Drain refuses new Turns and cuts every stream, after the events that the log has by then. The clients come back with their
// last id, to this server's successor. An http.Server does not wait for sockets, so Drain returns after every socket has got
// its close frame.
func (s *Server) Drain() {
	s.drain()
	s.sockets.Wait()
}

// Routes lists what is mounted, as "METHOD /path/:param". It is for the tests that compare the routes with
// openapi.json and with the table of roles.
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		routes = append(routes, r.Method+" "+r.Path)
	}
	return routes
}

// Listener bounds the connections of ln. It needs ConnContext on the http.Server that serves it.
func (s *Server) Listener(ln net.Listener) net.Listener {
	return s.conns.Listener(ln)
}

// ConnContext is http.Server.ConnContext: it lets a request's handler find its connection.
func (s *Server) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return limit.ConnContext(ctx, conn)
}

// Rung reports a commit of a Session to the relay of channels with callbacks, which else finds it by polling.
func (s *Server) Rung(sessionID string) { s.hook.Rung(sessionID) }

// Landed reports the end of a try of a delivery to the relay of channels with callbacks.
func (s *Server) Landed(i store.OutboxItem) { s.hook.Landed(i) }

// Carry moves what channels with callbacks are to receive to the outbox, until ctx ends. The sender of the outbox's
// rows of channel.OutboxKind gets their Deliveries from Webhooks.Delivery. It runs on every replica. Moves are made in
// transactions on a channel's cursor, so two replicas that carry at once move nothing twice.
func (s *Server) Carry(ctx context.Context) error {
	return s.hook.Relay(ctx)
}
