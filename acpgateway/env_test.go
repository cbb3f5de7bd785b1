package acpgateway_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/acpgateway"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/livefeed"
	"aqueduct/internal/app"
	"aqueduct/internal/app/apptest"
	"aqueduct/internal/bubbletest"
	"aqueduct/policy"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plan is what a test wants otherwise than usual.
type plan struct {
	agents map[string]acpgateway.AgentConfig
	limits acpgateway.Limits
	bridge bridge.Limits

	baseURL string
	revoke  bool         // tokens of proxies are kept and can be revoked
	broker  store.Broker // nil: storetest.Broker()
}

// acpEnv is a whole bridge with a gateway over a real database, in a bubble: time passes when
// everybody waits for it.
type acpEnv struct {
	t           *testing.T
	plan        plan
	path        string
	keys        *auth.Keys
	revocations *auth.Registry // nil: tokens cannot be revoked
	who         store.Principal

	net      *network
	store    store.Store
	log      *eventlog.Log
	sessions *bridge.Sessions
	gateway  *acpgateway.Gateway
	agents   *bridge.Directory
	hub      *livefeed.Hub
	stop     func()

	mu      sync.Mutex
	refused map[string]int // frames, by why
	taken   map[string]int // frames, by type
	linked  int            // proxies
}

// inEnv runs a test in a bubble with a acpEnv.
func inEnv(t *testing.T, p plan, test func(h *acpEnv)) {
	t.Parallel()
	path := storetest.SQLite(t)
	bubbletest.Test(t, func(t *testing.T) {
		h := &acpEnv{t: t, plan: p, path: path, who: store.LocalPrincipal(), refused: map[string]int{}, taken: map[string]int{}}
		if h.plan.agents == nil {
			h.plan.agents = map[string]acpgateway.AgentConfig{"dev": {}}
		}
		if h.plan.limits.Silence == 0 {
			h.plan.limits.Silence = -1
		}
		var err error
		if h.keys, err = auth.NewKeys(auth.NewKey()); err != nil {
			t.Fatal(err)
		}
		h.start()
		t.Cleanup(func() { h.stop() })
		test(h)
	})
}

// start makes a server as the program does, but serves its gateway alone.
func (h *acpEnv) start() {
	h.t.Helper()
	st, err := sqlite.Open(context.Background(), h.path, sqlite.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(h.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	callers := auth.None()
	var watch func(ctx context.Context, who acpgateway.Identity) (context.Context, func())
	if h.plan.revoke {
		h.revocations = auth.NewRegistry(st, logger)
		callers = callers.WithRegistry(h.revocations)
		watch = func(ctx context.Context, who acpgateway.Identity) (context.Context, func()) {
			return h.revocations.Watch(ctx, who.CredentialID, func() bool { return h.keys.Has(who.KeyID) })
		}
	}
	made, err := app.New(app.Config{
		Store: st, Broker: cmp.Or(h.plan.broker, storetest.Broker()), Name: "test", Logger: logger, Auth: callers, Agents: bridge.NewDirectory(), Metrics: server.NewMetrics(),
		Policy: policy.NewHolder(policy.Default()), Limits: h.plan.bridge, ToolClient: http.DefaultClient,
		Gateway: &acpgateway.Config{
			Authenticate: h.authenticate, Watch: watch, Agents: h.plan.agents, BaseURL: h.plan.baseURL, Limits: h.plan.limits, Meter: h.meter(),
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.store, h.net = st, newNetwork()
	h.log, h.hub, h.sessions, h.gateway, h.agents = made.Events, made.Hints, made.Sessions, made.Gateway, made.Sessions.Agents()
	stop := apptest.Run(h.t, made)
	bubbletest.Wait() // the gateway knows its proxies
	web := &http.Server{Handler: h.gateway, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var edge sync.WaitGroup
	edge.Go(func() { _ = web.Serve(h.net) })
	bubbletest.Wait()
	h.stop = sync.OnceFunc(func() {
		_ = web.Close()
		edge.Wait()
		stop()
		h.must(st.Close())
	})
}

// restart ends everything and starts a new process, as it were, on the same database.
func (h *acpEnv) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

func (h *acpEnv) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

func (h *acpEnv) authenticate(r *http.Request) (acpgateway.Identity, error) {
	c, credential, key, err := h.keys.ProxyCredential(r)
	if err == nil && h.revocations != nil {
		err = h.revocations.Admit(r.Context(), credential)
	}
	return acpgateway.Identity{ProxyID: c.ProxyID, AgentID: c.AgentID, Name: c.Name, CredentialID: credential.ID, KeyID: key, Until: credential.ExpiresAt}, err
}

func (h *acpEnv) meter() acpgateway.Meter {
	count := func(in map[string]int) func(string) {
		return func(what string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			in[what]++
		}
	}
	return acpgateway.Meter{Refused: count(h.refused), Frame: count(h.taken), Linked: func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.linked = n
	}}
}

// refusals is what was refused so far, by why.
func (h *acpEnv) refusals() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.refused)
}

func (h *acpEnv) online() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.linked
}

// pass lets time pass, and then everybody finish.
func (h *acpEnv) pass(d time.Duration) {
	time.Sleep(d)
	bubbletest.Wait()
}

// settle lets everybody finish what takes no more than quiet.
func (h *acpEnv) settle() { h.pass(1500 * time.Millisecond) }

// stream is a response that can be read.
type stream struct {
	h    *acpEnv
	feed *bridge.Feed
}

// post sends a message and waits for nothing.
func (h *acpEnv) post(thread, text string) *stream {
	h.t.Helper()
	return h.request(bridge.ChatRequest{ThreadID: thread, Messages: []agui.Message{
		{ID: uuid.NewString(), Role: "user", Content: agui.Text(text)},
	}})
}

// answer settles a Question with one of its options.
func (h *acpEnv) answer(thread, question, option string) *stream {
	h.t.Helper()
	return h.request(bridge.ChatRequest{ThreadID: thread, Answers: []approval.Answer{
		{QuestionID: question, Payload: []byte(`{"optionId":"` + option + `"}`)},
	}})
}

func (h *acpEnv) request(req bridge.ChatRequest) *stream {
	h.t.Helper()
	s, err := h.try(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *acpEnv) try(req bridge.ChatRequest) (*stream, error) {
	req.Principal, req.BodyHash, req.Dialect = h.who, []byte(uuid.NewString()), bridge.DialectV1
	reply, err := h.sessions.Chat(h.t.Context(), req)
	if err != nil {
		return nil, err
	}
	feed, err := h.sessions.Feeds().Chat(h.t.Context(), store.As(h.who), reply, false)
	if err != nil {
		return nil, err
	}
	h.t.Cleanup(feed.Close)
	return &stream{h, feed}, nil
}

// longest is more than anything a test waits for takes.
const longest = 3 * time.Hour

// rest is all events until the Run ends.
func (s *stream) rest() []string {
	s.h.t.Helper()
	ctx, cancel := context.WithTimeout(s.h.t.Context(), longest)
	defer cancel()
	var events []string
	for {
		items, err := s.feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			s.h.t.Fatalf("after %d events: %v", len(events), err)
		}
		for _, i := range items {
			events = append(events, string(i.Event))
		}
	}
}

func (h *acpEnv) session(thread string) store.Session {
	h.t.Helper()
	s, err := h.store.SessionByExternalID(h.t.Context(), store.As(h.who), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// events is a thread's whole log.
func (h *acpEnv) events(thread string) []string {
	h.t.Helper()
	rows, err := h.store.Events(h.t.Context(), store.System(), h.session(thread).ID, 0, 1<<30)
	if err != nil {
		h.t.Fatal(err)
	}
	var events []string
	for _, r := range rows {
		events = append(events, strings.Split(string(r.Data), "\n")...)
	}
	return events
}

// asked are a thread's open Questions, oldest first.
func (h *acpEnv) asked(thread string) []string {
	h.t.Helper()
	open, err := h.store.OpenToolCalls(h.t.Context(), store.System(), h.session(thread).ID)
	if err != nil {
		h.t.Fatal(err)
	}
	ids := make([]string, len(open))
	for i, c := range open {
		ids[i] = c.ID
	}
	return ids
}

// cancel cancels what a thread has under way.
func (h *acpEnv) cancel(thread string) {
	h.t.Helper()
	run, err := h.store.LastRun(h.t.Context(), store.System(), h.session(thread).ID)
	if err == nil {
		_, err = h.sessions.Cancels().Cancel(h.t.Context(), h.who, run.ID)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// instance is what is kept of the place a thread's agent runs in.
func (h *acpEnv) instance(thread string) store.SandboxInstance {
	h.t.Helper()
	row, err := h.store.SandboxInstance(h.t.Context(), store.System(), h.session(thread).ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}
