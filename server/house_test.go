package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/hints"
	"aqueduct/bridge/proxies"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is the whole server on a real database, with an agent that follows a script.
type house struct {
	t       testing.TB
	URL     string
	store   store.Store
	server  *server.Server
	metrics *server.Metrics
	hints   *hints.Hub
	agent   *scripted
	gateway *acpgateway.Gateway // nil: the agent is not behind a proxy
	faults  *faulty
	ended   chan string // the outcomes of Runs
	log     *eventlog.Log
	agents  *bridge.Directory
	bridge  *bridge.Sessions
	tools   *tools.Service
	auth    *auth.Auth
	rules   *policy.Holder // nil without a policy
}

// plan is what a test wants otherwise than usual.
type plan struct {
	auth    *auth.Auth
	hosts   []string
	origins []string
	limits  server.Limits
	bridge  bridge.Limits
	rules   string // the policy; "" is none
	control bridge.Controller
	proxies *server.ProxyAccess
	hooks   server.Webhooks
	acp     bool // the agent is behind a proxy, which the test links
	wrap    func(net.Listener) net.Listener
	open    func(t testing.TB) (store.Store, error) // nil: an SQLite file
	public  string
	noPage  bool
	secrets redact.Hasher // masks and seals; the zero one does not
	revoke  bool          // credentials are kept and can be revoked
}

func newHouse(t testing.TB, script script) *house { return newHouseWith(t, script, plan{}) }

func newHouseWith(t testing.TB, script script, p plan) *house {
	t.Helper()
	if p.open == nil {
		p.open = func(t testing.TB) (store.Store, error) {
			return sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
		}
	}
	st, err := p.open(t)
	if err != nil {
		t.Fatal(err)
	}
	if p.secrets.Filter != nil {
		st = redact.Wrap(st, p.secrets.Filter, p.secrets.Vault)
	}
	replica := uuid.NewString()
	if err := st.Register(t.Context(), store.Replica{ID: replica, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: st, metrics: server.NewMetrics(), agent: &scripted{script: script}, faults: &faulty{Store: st}, ended: make(chan string, 1000)}
	h.hints = hints.New(hints.Config{Sessions: st, Dropped: h.metrics.HintDropped})
	logger := slog.New(slog.DiscardHandler)
	entries := audit.NewLog(st, logger, nil)
	if test, ok := t.(*testing.T); ok {
		logger = slog.New(slog.NewTextHandler(test.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	}
	bell := eventlog.NewBell(local.New())
	log := eventlog.New(eventlog.Config{Store: st, Bell: bell, Replica: replica, Logger: logger, Observe: h.metrics.Committed})
	h.log = log
	agents := bridge.NewDirectory()
	h.agents = agents
	if !p.acp {
		agents.Add("scripted", h.agent)
	}
	rules := p.holder(t)
	h.rules = rules
	inForce := policy.Default
	if rules != nil {
		inForce = rules.Current
	}
	called := tools.New(tools.Config{
		Store: st, Hash: p.secrets, Replica: replica, Policy: inForce, Keep: log.Keep, Ring: func(id string) { bell.Ring(id) }, Listen: bell.Overhear,
		Listeners: bell.Listeners, Callback: bridge.ToldByCallback, Client: http.DefaultClient, Logger: logger, Meter: h.metrics.ToolMeter(),
	})
	sessions := bridge.New(bridge.Config{
		Store: st, Filter: p.secrets.Filter, Hash: p.secrets, Log: log, Bell: bell, Replica: replica, Agents: agents, Logger: logger,
		Limits: p.bridge, Meter: h.meter(), Tools: called, Policy: rules, Hints: h.hints, PublicURL: p.public, Audit: entries,
	})
	h.bridge, h.tools = sessions, called
	if p.auth == nil {
		p.auth = auth.None()
	}
	if p.revoke {
		p.auth = p.auth.WithRegistry(auth.NewRegistry(st, logger))
	}
	h.auth = p.auth
	cfg := server.Config{
		Sessions: sessions, Store: h.faults, Auth: p.auth, Metrics: h.metrics, Logger: slog.New(slog.DiscardHandler),
		NoPage: p.noPage, Hosts: p.hosts, Origins: p.origins, Limits: p.limits,
		Links: newLinks(t, st),
		Tools: called, CheckURL: func(string) error { return nil },
		Controller: p.control, Proxies: p.proxies, Hints: h.hints, Webhooks: p.hooks, Audit: entries,
	}
	if p.acp {
		h.gateway = acpgateway.New(acpgateway.Config{
			Authenticate: func(*http.Request) (acpgateway.Identity, error) {
				return acpgateway.Identity{ProxyID: "p1", AgentID: "scripted"}, nil
			},
			Registry: proxies.New(st), Directory: agents, Spoke: sessions.Spoke, Note: log.Note, Stalled: log.Stalled, Hints: h.hints,
			Agents: map[string]acpgateway.AgentConfig{"scripted": {}}, Logger: logger, BaseURL: "http://127.0.0.1:1", Hash: p.secrets,
		})
		cfg.Gateway = h.gateway
	}
	if h.server, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	stop := h.run(bell, log, called, sessions)
	web := httptest.NewUnstartedServer(h.server)
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
	})
	return h
}

// meter is the server's own and the test's.
func (h *house) meter() bridge.Meter {
	m := h.metrics.Meter()
	count := m.RunEnded
	m.RunEnded = func(outcome string) {
		count(outcome)
		select {
		case h.ended <- outcome:
		default: // nobody counts that far
		}
	}
	return m
}

// as is the house for another test.
func (h *house) as(t testing.TB) *house {
	other := *h
	other.t = t
	return &other
}

// run starts the rooms below; the function it returns ends them from the top down.
func (h *house) run(bell *eventlog.Bell, log *eventlog.Log, called *tools.Service, sessions *bridge.Sessions) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	driving, stopDriving := context.WithCancel(ctx)
	linked, stopLinks := context.WithCancel(ctx)
	var upper, links, lower sync.WaitGroup
	if h.gateway != nil {
		links.Go(func() {
			if err := h.gateway.Run(linked); err != nil {
				h.t.Error(err)
			}
		})
	}
	upper.Go(func() {
		if err := sessions.Run(driving); err != nil {
			h.t.Error(err)
		}
	})
	upper.Go(func() {
		if err := called.Run(driving); err != nil {
			h.t.Error(err)
		}
	})
	lower.Go(func() { _ = bell.Run(ctx) })
	lower.Go(func() { _ = log.Run(ctx) })
	lower.Go(func() { _ = h.hints.Run(ctx) })
	if registry := h.auth.Registry(); registry != nil {
		lower.Go(func() { _ = registry.Run(ctx) })
	}
	return func() {
		stopDriving()
		upper.Wait()
		stopLinks()
		links.Wait()
		cancel()
		lower.Wait()
		if err := h.store.Close(); err != nil {
			h.t.Error(err)
		}
	}
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
func (h *house) request(method, path, body string, header ...string) *http.Request {
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
func (h *house) do(method, path, body string, header ...string) answer {
	h.t.Helper()
	return h.send(h.request(method, path, body, header...))
}

func (h *house) send(req *http.Request) answer {
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
func (h *house) direct(req *http.Request) answer {
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
func (h *house) threads() int {
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
