package server_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/livefeed"
	"aqueduct/bridge/mcpservers"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/queue"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/internal/app"
	"aqueduct/internal/app/apptest"
	"aqueduct/policy"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/limit"
	"aqueduct/server/llmproxy"
	"aqueduct/store"
	"aqueduct/store/blob"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(driving{m}) }

// env is the whole server on a real database, with an agent that follows a script.
type env struct {
	t       testing.TB
	URL     string
	store   store.Store
	server  *server.Server
	metrics *server.Metrics
	hints   *livefeed.Hub
	agent   *scripted
	gateway *acpgateway.Gateway // nil: the agent is not behind a proxy
	faults  *faulty
	ended   chan string // the outcomes of Runs
	log     *eventlog.Log
	agents  *bridge.Directory
	bridge  *bridge.Sessions
	tools   *tools.Service
	auth    *auth.Auth
	entries *contextstore.Service
	rules   *policy.Holder // nil without a policy
}

// plan is what a test wants otherwise than usual.
type plan struct {
	auth        *auth.Auth
	hosts       []string
	origins     []string
	limits      limit.Limits
	bridge      bridge.Limits
	queue       queue.Limits
	rules       string // the policy; "" is none
	control     bridge.Controller
	proxies     *server.ProxyAccess
	hooks       channel.Webhooks
	acp         bool // the agent is behind a proxy, which the test links
	own         bool // and is started with the server
	wrap        func(net.Listener) net.Listener
	open        func(t testing.TB) (store.Store, error) // nil: an SQLite file
	public      string
	noPage      bool
	secrets     redact.Hasher // masks and seals; the zero one does not
	revoke      bool          // credentials are kept and can be revoked
	broker      store.Broker  // nil: storetest.Broker()
	models      llmproxy.Upstreams
	modelClient *http.Client // http.DefaultClient
	blobs       blob.Store   // nil: rows hold all
	agentURL    string       // where agents reach it
	entryBytes  int64        // of one user's context entries
	log         *slog.Logger // of the edge; nil discards it
	mcp         *mcpservers.Config
	name        string // of the replica; "" is "test". One of the same name on the same rows fences it
}

// atHome lets programs register agents that the test serves.
func atHome(t testing.TB) httpagent.Config {
	t.Helper()
	limits := httpagent.Limits{}
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: limits.Outbound()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	return httpagent.Config{Limits: limits, Gate: gate}
}

func newEnv(t testing.TB, script script) *env { return newEnvWith(t, script, plan{}) }

func newEnvWith(t testing.TB, script script, p plan) *env {
	t.Helper()
	if p.open == nil {
		p.open = func(t testing.TB) (store.Store, error) {
			return sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
		}
	}
	st, err := p.open(t)
	if err != nil {
		t.Fatal(err)
	}
	if p.secrets.Filter != nil {
		st = redact.Wrap(st, p.secrets.Filter, p.secrets.Vault)
	}
	h := &env{t: t, store: st, metrics: server.NewMetrics(), agent: &scripted{script: script}, faults: &faulty{Store: st}, ended: make(chan string, 1000)}
	logger := slog.New(slog.DiscardHandler)
	if test, ok := t.(*testing.T); ok {
		logger = slog.New(slog.NewTextHandler(test.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	}
	h.agents = bridge.NewDirectory()
	if !p.acp {
		h.agents.Add("scripted", h.agent)
	}
	h.rules = p.holder(t)
	if p.auth == nil {
		p.auth = auth.None()
	}
	if p.revoke {
		p.auth = p.auth.WithRegistry(auth.NewRegistry(st, logger))
	}
	cfg := app.Config{
		Store: st, Broker: cmp.Or(p.broker, storetest.Broker()), Name: cmp.Or(p.name, "test"), Logger: logger, Auth: p.auth, Agents: h.agents, Metrics: h.metrics, Meter: h.meter(),
		AgentURL: p.agentURL, Blobs: p.blobs, ContextBytes: p.entryBytes, Registered: atHome(t), Secrets: p.secrets, Policy: h.rules, PublicURL: p.public, Limits: p.bridge, QueueLimits: p.queue, ToolClient: http.DefaultClient, MCP: p.mcp,
		Edge: server.Config{
			Store: h.faults, Logger: cmp.Or(p.log, slog.New(slog.DiscardHandler)), NoPage: p.noPage, Hosts: p.hosts, Origins: p.origins, Limits: p.limits,
			Links: newLinks(t, st), CheckURL: func(string) error { return nil }, Controller: p.control, Proxies: p.proxies, Webhooks: p.hooks,
			Models: p.models, ModelClient: cmp.Or(p.modelClient, http.DefaultClient),
		},
	}
	if p.acp {
		cfg.Gateway = &acpgateway.Config{
			Authenticate: func(*http.Request) (acpgateway.Identity, error) {
				return acpgateway.Identity{ProxyID: "p1", AgentID: "scripted"}, nil
			},
			Agents: map[string]acpgateway.AgentConfig{"scripted": {}}, BaseURL: "http://127.0.0.1:1",
		}
	}
	if p.own {
		cfg.Gateway.Own = map[string]string{"p1": "scripted"}
	}
	made, err := app.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.server, h.hints, h.gateway = made.Server, made.Hints, made.Gateway
	h.log, h.bridge, h.tools, h.auth, h.entries = made.Events, made.Sessions, made.Tools, p.auth, made.Contexts
	stop := apptest.Run(t, made)
	web := httptest.NewUnstartedServer(judged(t, h.server))
	if p.wrap != nil {
		web.Listener = p.wrap(web.Listener)
	}
	web.Listener, web.Config.ConnContext = h.server.Listener(web.Listener), h.server.ConnContext
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.Start()
	h.URL = web.URL
	t.Cleanup(func() {
		h.server.Drain()
		http.DefaultClient.CloseIdleConnections()
		web.Close()
		stop()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// meter is the server's own and the test's.
func (h *env) meter() *bridge.Meter {
	m := h.metrics.Meter()
	count := m.RunEnded
	m.RunEnded = func(outcome string) {
		count(outcome)
		select {
		case h.ended <- outcome:
		default: // not counted that far
		}
	}
	return &m
}

// as is the env for another test.
func (h *env) as(t testing.TB) *env {
	other := *h
	other.t = t
	return &other
}

// faulty is a store whose listing of threads fails as a test wishes.
type faulty struct {
	store.Store
	sessions func() error
	ping     func() error
}

func (f *faulty) Sessions(ctx context.Context, in store.Scope, p store.Page) ([]store.Session, error) {
	if f.sessions != nil {
		return nil, f.sessions()
	}
	return f.Store.Sessions(ctx, in, p)
}

func (f *faulty) Ping(ctx context.Context) error {
	if f.ping != nil {
		return f.ping()
	}
	return f.Store.Ping(ctx)
}

// request makes one against the running server. header holds pairs.
func (h *env) request(method, path, body string, header ...string) *http.Request {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if method != http.MethodGet && body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do makes a request and reads the whole response.
func (h *env) do(method, path, body string, header ...string) answer {
	h.t.Helper()
	return h.send(h.request(method, path, body, header...))
}

func (h *env) send(req *http.Request) answer {
	h.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s %s: after %d bytes: %v", req.Method, req.URL.Path, len(raw), err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// direct serves a request without a network, for what a client would not send.
func (h *env) direct(req *http.Request) answer {
	h.t.Helper()
	local := context.WithValue(req.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	rec := httptest.NewRecorder()
	if req.Host == "example.com" { // httptest's default
		req.Host = "localhost"
	}
	h.server.ServeHTTP(rec, req.WithContext(local))
	return answer{rec.Code, rec.Header(), rec.Body.String()}
}

// scope is what the caller of a server without tokens sees.
func scope() store.Scope { return store.As(store.LocalPrincipal()) }

// threads is how many threads are kept.
func (h *env) threads() int {
	h.t.Helper()
	rows, err := h.store.Sessions(h.t.Context(), scope(), store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	return len(rows)
}

// holder is the policy of a plan.
func (p plan) holder(t testing.TB) *policy.Holder {
	t.Helper()
	if p.rules == "" {
		return nil
	}
	rules, err := policy.Parse([]byte(p.rules))
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewHolder(rules)
}
