package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/hints"
	"aqueduct/bridge/notify/link"
	"aqueduct/bridge/proxies"
	"aqueduct/bridge/tools"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// Config is what a Server needs.
type Config struct {
	Sessions *bridge.Sessions
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
	Limits  Limits
	// Controller steers agents behind proxies; nil without a gateway.
	Controller bridge.Controller
	// TokenLife is the longest that POST /api/tokens lets a token live; 0 is auth.MaxTokenLife.
	TokenLife time.Duration
	// Proxies is how those get their tokens; nil lets none register.
	Proxies *ProxyAccess
	// Hints is what /ws/client tells; nil is nothing.
	Hints *hints.Hub
	// Tools is what agents have run; CheckURL says which addresses tools may have.
	Tools    *tools.Service
	CheckURL func(string) error
	// Links are the signed links to one decision; nil takes none.
	Links *link.Book
	// NoPage leaves the page at "/" out.
	NoPage bool
	// Webhooks are the channels that talk by signed POSTs; see Carry.
	Webhooks Webhooks
	// Audit keeps refused attempts, sign-ins and controls; nil keeps none.
	Audit *audit.Log
	// PublicURL is where people reach this server; "" is wherever a request comes in.
	PublicURL string
	// Gateway is /ws/agent, which knows its own callers; nil is none.
	Gateway http.Handler
}

// Server is the HTTP handler of everything Aqueduct serves.
type Server struct {
	echo    *echo.Echo
	drain   context.CancelFunc
	sockets *sockets
	conns   *connLimiter
	hook    *ingressHook
}

// resource is a handler that knows its own routes.
type resource interface{ mount(to *routes) }

// routes is where a resource mounts itself.
type routes struct {
	echo         *echo.Echo
	authenticate func(also ...auth.Kind) echo.MiddlewareFunc
	access       map[string]access
	unlisted     []string // routes that the table of roles does not have
}

// rule is what the table says of a route.
func (r *routes) rule(method, path string, open bool) access {
	rule, ok := r.access[method+" "+path]
	if (!ok || rule.open != open) && !(open && isFile(method, path)) {
		r.unlisted = append(r.unlisted, method+" "+path)
	}
	return rule
}

// open adds a route that anybody may call.
func (r *routes) open(method, path string, h echo.HandlerFunc) {
	r.rule(method, path, true)
	r.echo.Add(method, path, h)
}

// callers adds a route that wants to know who calls.
func (r *routes) callers(method, path string, h echo.HandlerFunc) {
	r.echo.Add(method, path, h, r.authenticate(), authorize(r.rule(method, path, false)))
}

// deciders adds a route that tokens of approvers open as well, who chat with nobody.
func (r *routes) deciders(method, path string, h echo.HandlerFunc) {
	r.echo.Add(method, path, h, r.authenticate(auth.KindApprover), authorize(r.rule(method, path, false)))
}

// beside is h for the Callers of a route that agents call too, with a token of their own.
func (r *routes) beside(method, path string, h echo.HandlerFunc) echo.HandlerFunc {
	return r.authenticate()(authorize(r.rule(method, path, true))(h))
}

// New puts the resources together behind one guard.
func New(cfg Config) (*Server, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	draining, drain := context.WithCancel(context.Background())
	meter := cfg.Metrics.limitMeter()
	bodies := newBodyBudget(cfg.Limits, func() { meter.refused("bodies") })
	in := newIntake(cfg.Limits, bodies, newBrakes(cfg.Limits, meter))
	guard, err := newGuard(cfg, in)
	if err != nil {
		drain()
		return nil, err
	}
	register := newProxyRegister(cfg, in)
	open := newSockets(cfg.Limits, draining, meter)
	conns := newConnLimiter(cfg.Limits, func() { meter.evicted("connection") })
	meter.watch(conns, open, bodies)
	channel := &ingress{sessions: cfg.Sessions, store: cfg.Store, auth: cfg.Auth, in: in, open: open, log: cfg.Logger, audit: cfg.Audit}
	hook, err := newIngressHook(channel, cfg.Webhooks)
	if err != nil {
		drain()
		return nil, err
	}
	e := echo.New()
	e.JSONSerializer = plainJSON{}
	e.IPExtractor = echo.ExtractIPDirect() // X-Forwarded-For is whatever the caller likes
	e.HTTPErrorHandler = (&failures{log: cfg.Logger, audit: cfg.Audit}).handle
	e.Pre(recovered(e.HTTPErrorHandler), guard.check)
	to := &routes{echo: e, authenticate: guard.authenticate, access: accessTable()}
	for _, r := range append(resources(cfg, in, open, draining), register, channel, hook) {
		r.mount(to)
	}
	if len(to.unlisted) > 0 {
		drain()
		return nil, fmt.Errorf("server: the table of roles (access.go) does not say who may use %s", strings.Join(to.unlisted, ", "))
	}
	return &Server{echo: e, drain: drain, sockets: open, conns: conns, hook: hook}, nil
}

func resources(cfg Config, in *intake, open *sockets, draining context.Context) []resource {
	out := newStreams(cfg, draining)
	traces := &trace{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out}
	deeds := proxyDeeds{known: proxies.New(cfg.Store), audit: cfg.Audit}
	chats := &threads{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out}
	return []resource{
		&chat{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out},
		&capabilities{agents: cfg.Sessions.Agents(), version: cfg.Version},
		chats,
		&shares{threads: chats, sessions: cfg.Sessions, store: cfg.Store, in: in},
		&threadControl{threads: chats, sessions: cfg.Sessions, store: cfg.Store, control: cfg.Controller, in: in, audit: cfg.Audit},
		&proxyList{known: deeds.known, control: cfg.Controller, deeds: deeds},
		&proxyControl{threads: chats, known: deeds.known, control: cfg.Controller, in: in, deeds: deeds},
		&agentSocket{gateway: cfg.Gateway},
		&grants{sessions: cfg.Sessions, store: cfg.Store, in: in},
		&delegations{sessions: cfg.Sessions, store: cfg.Store, in: in},
		&auditPage{sessions: cfg.Sessions, in: in},
		&toolProxy{sessions: cfg.Sessions, store: cfg.Store, in: in, draining: draining},
		&toolRegistry{tools: cfg.Tools, sessions: cfg.Sessions, store: cfg.Store, checkURL: cfg.CheckURL, in: in},
		&permissionSockets{sessions: cfg.Sessions, store: cfg.Store, auth: cfg.Auth, in: in, open: open, log: cfg.Logger},
		&clientSockets{hub: cfg.Hints, store: cfg.Store, in: in, open: open},
		&runs{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out, trace: traces},
		traces,
		&approvals{sessions: cfg.Sessions, store: cfg.Store, control: cfg.Controller, in: in, out: out},
		&toolCalls{sessions: cfg.Sessions, in: in},
		newDecisionLinks(cfg, in),
		&session{auth: cfg.Auth, in: in, audit: cfg.Audit},
		&signIn{auth: cfg.Auth, sessions: cfg.Sessions, in: in, public: cfg.PublicURL, log: cfg.Logger},
		newTokens(cfg, in),
		&serviceAccounts{registry: cfg.Auth.Registry(), in: in},
		newHealth(cfg.Store, draining),
		&metricsPage{metrics: cfg.Metrics},
		&limitsPage{limits: cfg.Limits, sessions: cfg.Sessions},
		&openAPI{},
		&page{off: cfg.NoPage},
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Drain refuses new Turns and cuts every stream. Their clients come back with their last
// id, to this server's successor. When it returns, every socket has been told and closed:
// no http.Server waits for those.
func (s *Server) Drain() {
	s.drain()
	s.sockets.wait()
}

// Routes lists what is mounted, as "METHOD /path/:param".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		routes = append(routes, r.Method+" "+r.Path)
	}
	return routes
}
