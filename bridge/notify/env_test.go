package notify_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/notify"
	"aqueduct/bridge/outbound"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = notify.Secret("sixteen and more characters")

// start is when every test begins.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// clock stands still until a test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// delivery is one as it reached a target.
type delivery struct {
	header http.Header
	body   string
}

// hook is a target.
type hook struct {
	*httptest.Server
	got    chan delivery
	answer func(w http.ResponseWriter, r *http.Request)
}

func newHook(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *hook {
	t.Helper()
	h := &hook{got: make(chan delivery, 1000), answer: answer}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		h.got <- delivery{r.Header, string(raw)}
		if h.answer != nil {
			h.answer(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// env is a Notifier on a real database, under a clock of the test's.
type env struct {
	*notify.Notifier
	t     *testing.T
	store store.Store
	clock *clock
	said  chan string // what became of each delivery
}

func openStore(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func newEnv(t *testing.T, st store.Store, targets ...notify.Target) *env {
	t.Helper()
	return newEnvWith(t, st, notify.Config{Targets: targets})
}

func newEnvWith(t *testing.T, st store.Store, cfg notify.Config) *env {
	t.Helper()
	h := &env{t: t, store: st, clock: &clock{now: start}, said: make(chan string, 1000)}
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: outbound.Limits{Redirects: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	cfg.Store, cfg.Now, cfg.Jitter, cfg.Poll = st, h.clock.Now, func() float64 { return 0 }, time.Hour
	cfg.Link, cfg.BaseURL, cfg.Observe = linkToken, "https://aqueduct.example/", func(what string) { h.said <- what }
	if cfg.Client == nil {
		cfg.Client = gate.Client()
	}
	if h.Notifier, err = notify.New(cfg); err != nil {
		t.Fatal(err)
	}
	return h
}

// run starts the worker; it ends with the test, or when the function it returns is called.
func (h *env) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	h.t.Cleanup(stop)
	return stop
}

// keep writes rows, as a request does.
func (h *env) keep(rows ...store.OutboxItem) {
	h.t.Helper()
	err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
		for _, i := range rows {
			if err := tx.InsertOutbox(h.t.Context(), i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// after moves the clock and has the outbox looked at.
func (h *env) after(d time.Duration) {
	h.clock.forward(d)
	h.Kick()
}

// row is the one that waits, whenever it is due.
func (h *env) row() (store.OutboxItem, bool) {
	h.t.Helper()
	rows, err := h.due(store.NeverDue().AddDate(0, 1, 0))
	if err != nil || len(rows) > 1 {
		h.t.Fatalf("%d rows, %v", len(rows), err)
	}
	if len(rows) == 0 {
		return store.OutboxItem{}, false
	}
	return rows[0], true
}

// due returns the items that are due, of all lanes.
func (h *env) due(now time.Time) (rows []store.OutboxItem, err error) {
	lanes, err := h.store.OutboxLanes(h.t.Context(), store.System(), "")
	for _, lane := range lanes {
		some, failed := h.store.OutboxDue(h.t.Context(), store.System(), lane, now, 10)
		rows, err = append(rows, some...), errors.Join(err, failed)
	}
	return rows, err
}

func target(h *hook) notify.Target { return notify.Target{Name: "ops", URL: h.URL, Secret: secret} }

var session = store.Session{ID: "s", Tenant: "acme", User: "ada", ExternalID: "thread-1", AgentID: "a"}

// asked is an open permission with confidential arguments.
func asked() approval.Question {
	id := uuid.Must(uuid.NewV7()).String()
	return approval.Question{
		Call: store.ToolCall{ID: id, Kind: store.KindQuestion, Status: store.ToolWaitingApproval, Args: []byte(`{"password":"hunter2"}`)},
		Approval: store.Approval{
			ID: id, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: "deploy", Title: "Deploy it", Risk: "high",
			Args: []byte(`{"password":"hunter2"}`), ArgsSHA256: "abc123", CreatedAt: start, ExpiresAt: start.Add(10 * time.Minute),
		},
	}
}

// linkToken stands for the signer of links: its token is the Link itself.
func linkToken(l notify.Link) string {
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and a time
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readLink(token string) (l notify.Link, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(raw, &l)
}
