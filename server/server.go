package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
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
}

// Server is the HTTP handler of everything Aqueduct serves.
type Server struct {
	echo  *echo.Echo
	drain context.CancelFunc
}

// resource is a handler that knows its own routes.
type resource interface{ mount(to *routes) }

// routes is where a resource mounts itself.
type routes struct {
	echo         *echo.Echo
	authenticate echo.MiddlewareFunc
}

// open adds a route that anybody may call.
func (r *routes) open(method, path string, h echo.HandlerFunc) { r.echo.Add(method, path, h) }

// callers adds a route that wants to know who calls.
func (r *routes) callers(method, path string, h echo.HandlerFunc) {
	r.echo.Add(method, path, h, r.authenticate)
}

// New puts the resources together behind one guard.
func New(cfg Config) (*Server, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	draining, drain := context.WithCancel(context.Background())
	guard, err := newGuard(cfg)
	if err != nil {
		drain()
		return nil, err
	}
	e := echo.New()
	e.JSONSerializer = plainJSON{}
	e.IPExtractor = echo.ExtractIPDirect() // X-Forwarded-For is whatever the caller likes
	e.HTTPErrorHandler = (&failures{log: cfg.Logger}).handle
	e.Pre(recovered(e.HTTPErrorHandler), guard.check)
	to := &routes{echo: e, authenticate: guard.authenticate}
	for _, r := range resources(cfg, draining) {
		r.mount(to)
	}
	return &Server{echo: e, drain: drain}, nil
}

func resources(cfg Config, draining context.Context) []resource {
	in := newIntake(cfg.Limits)
	out := newStreams(cfg, draining)
	traces := &trace{store: cfg.Store, in: in}
	return []resource{
		&chat{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out},
		&capabilities{agents: cfg.Sessions.Agents(), version: cfg.Version},
		&threads{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out},
		&runs{sessions: cfg.Sessions, store: cfg.Store, in: in, out: out, trace: traces},
		traces,
		&approvals{sessions: cfg.Sessions, store: cfg.Store, in: in},
		&toolCalls{sessions: cfg.Sessions, in: in},
		&session{auth: cfg.Auth, in: in},
		newHealth(cfg.Store, draining),
		&metricsPage{metrics: cfg.Metrics},
		&openAPI{},
		&page{},
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Drain refuses new Turns and cuts every stream. Their clients come back with their last
// id, to this server's successor.
func (s *Server) Drain() { s.drain() }

// Routes lists what is mounted, as "METHOD /path/:param".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		routes = append(routes, r.Method+" "+r.Path)
	}
	return routes
}
