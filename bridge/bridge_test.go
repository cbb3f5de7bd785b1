package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a whole bridge over a real database, without HTTP.
type harness struct {
	t        *testing.T
	path     string
	store    store.Store
	sessions *bridge.Sessions
	agent    *scripted
	held     *held        // instead of agent
	other    bridge.Agent // instead of both
	onBusy   string
	postgres bool // path is the DSN of a server
	replica  string
	name     string // of the replica, beside "test"
	policy   *policy.Policy
	who      store.Principal
	limits   bridge.Limits
	stranded atomic.Int32
	outcomes chan string // the outcomes of Runs
	between  *between    // what the bridge, but not its log, goes through to the store; nil: nothing
	stop     func()
}

// newHarness opens a database in a temporary folder and starts a bridge on it.
func newHarness(t *testing.T, agent *scripted) *harness {
	t.Helper()
	return newHarnessWith(t, agent, soon())
}

func newHarnessWith(t *testing.T, agent *scripted, limits bridge.Limits) *harness {
	t.Helper()
	h := &harness{limits: limits, t: t, path: storetest.SQLite(t), agent: agent, who: store.LocalPrincipal(), outcomes: make(chan string, 100)}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *harness) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	st, err := h.open(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	replica := uuid.NewString()
	if err := st.Register(ctx, store.Replica{ID: replica, Name: "test" + h.name}); err != nil {
		h.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(h.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	bell := eventlog.NewBell(storetest.Broker())
	log := eventlog.New(eventlog.Config{Store: st, Bell: bell, Replica: replica, Logger: logger})
	agents := bridge.NewDirectory()
	h.replica = replica
	if h.other != nil {
		agents.Add("other", h.other)
	} else if h.held != nil {
		agents.Add("held", h.held)
	} else {
		agents.Add("scripted", h.agent)
	}
	h.store = st
	var kept store.Store = st
	if h.between != nil {
		h.between.Store, kept = st, h.between
	}
	h.sessions = bridge.New(bridge.Config{
		Store: kept, Log: log, Bell: bell, Replica: replica, Agents: agents, Logger: logger,
		Limits: h.limits, OnBusy: h.onBusy, Policy: h.rules(), Meter: bridge.Meter{Stranded: func() { h.stranded.Add(1) }, RunEnded: func(outcome string) {
			select {
			case h.outcomes <- outcome:
			default: // nobody reads them
			}
		}},
	})
	var inner, outer sync.WaitGroup
	driving, stopDriving := context.WithCancel(ctx)
	inner.Go(func() {
		if err := h.sessions.Run(driving); err != nil {
			h.t.Error(err)
		}
	})
	outer.Go(func() { _ = bridge.Beat(ctx, st, replica, logger) }) // there may be a second harness on this database
	outer.Go(func() { _ = bell.Run(ctx) })
	outer.Go(func() { _ = log.Run(ctx) })
	h.stop = sync.OnceFunc(func() {
		stopDriving()
		inner.Wait()
		cancel()
		outer.Wait()
		if err := st.Close(); err != nil {
			h.t.Error(err)
		}
	})
}

func (h *harness) open(ctx context.Context) (store.Store, error) {
	if h.postgres {
		return postgres.Open(ctx, h.path, postgres.Options{})
	}
	return sqlite.Open(ctx, h.path, sqlite.Options{})
}

// restart stops everything and starts a new process, as it were, on the same database.
func (h *harness) restart() {
	h.stop()
	h.start()
}

// chat posts and returns all events of the response.
func (h *harness) chat(req bridge.ChatRequest) []string {
	h.t.Helper()
	events, err := h.tryChat(req)
	if err != nil {
		h.t.Fatalf("chat: %v", err)
	}
	return events
}

func (h *harness) tryChat(req bridge.ChatRequest) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if req.Principal.User == "" {
		req.Principal = h.who
	}
	if req.Dialect == "" {
		req.Dialect = bridge.DialectV1
	}
	if req.BodyHash == nil {
		req.BodyHash = []byte(uuid.NewString())
	}
	reply, err := h.sessions.Chat(ctx, req)
	if err != nil {
		return nil, err
	}
	feed, err := h.sessions.Feeds().Chat(ctx, store.As(req.Principal), reply, false)
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	return drain(ctx, feed)
}

func drain(ctx context.Context, feed *bridge.Feed) ([]string, error) {
	var events []string
	for {
		items, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, fmt.Errorf("after %d events: %w", len(events), err)
		}
		for _, i := range items {
			events = append(events, string(i.Event))
		}
	}
}

// types are the events' types in order, runs of one type told once.
func types(events []string) string {
	var out []string
	for _, e := range events {
		t := string(agui.TypeOf([]byte(e)))
		if len(out) == 0 || out[len(out)-1] != t {
			out = append(out, t)
		}
	}
	return strings.Join(out, " ")
}

func user(id, text string) agui.Message {
	return agui.Message{ID: id, Role: "user", Content: agui.Text(text)}
}

// ask is a ChatRequest with one message.
func ask(thread, text string) bridge.ChatRequest {
	return bridge.ChatRequest{ThreadID: thread, Messages: []agui.Message{user(uuid.NewString(), text)}}
}

func answer(thread string, a approval.Answer) bridge.ChatRequest {
	return bridge.ChatRequest{ThreadID: thread, Answers: []approval.Answer{a}}
}

// scripted is an Agent that says what a function of the prompt tells it to.
type scripted struct {
	mu      sync.Mutex
	calls   []bridge.Call
	answers [][]approval.Delivery
	script  func(call bridge.Call, answers []approval.Delivery) []bridge.Output
	block   chan struct{} // when set, the upstream waits for it before its last output
}

func (a *scripted) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	return a.begin(call, nil)
}

func (a *scripted) Resume(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	if len(answers) == 0 {
		return nil, bridge.ErrCannotResume
	}
	return a.begin(call, answers)
}

func (a *scripted) begin(call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	a.answers = append(a.answers, answers)
	return &scriptedTurn{outputs: a.script(call, answers), block: a.block, cancelled: make(chan struct{})}, nil
}

func (a *scripted) heard() [][]approval.Delivery {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([][]approval.Delivery(nil), a.answers...)
}

type scriptedTurn struct {
	outputs   []bridge.Output
	block     chan struct{}
	cancelled chan struct{}
	once      sync.Once
}

func (t *scriptedTurn) Next(ctx context.Context) ([]bridge.Output, error) {
	if len(t.outputs) == 0 {
		return nil, fault.New("upstream_truncated", "ended")
	}
	if len(t.outputs) == 1 && t.block != nil {
		select {
		case <-t.block:
		case <-t.cancelled:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := t.outputs[:1]
	t.outputs = t.outputs[1:]
	return out, nil
}

func (t *scriptedTurn) Cancel(context.Context) error {
	t.once.Do(func() { close(t.cancelled) })
	return nil
}
func (t *scriptedTurn) Release() {}

func textOutputs(id string, texts ...string) []bridge.Output {
	out := []bridge.Output{{Event: &agui.TextMessageStart{MessageID: id, Role: "assistant"}}}
	for _, s := range texts {
		out = append(out, bridge.Output{Event: &agui.TextMessageContent{MessageID: id, Delta: s}})
	}
	return append(out, bridge.Output{Event: &agui.TextMessageEnd{MessageID: id}})
}

func done() bridge.Output { return bridge.Output{End: &bridge.End{}} }

func permission(id string) bridge.Output {
	return bridge.Output{Question: &approval.Request{
		UpstreamID: id, Kind: approval.AskPermission, Tool: "shell", Title: "Run it?", Args: []byte(`{"cmd":"ls"}`),
		Options: []approval.Option{
			{ID: "yes", Label: "Allow", Kind: "allow_once"}, {ID: "no", Label: "Reject", Kind: "reject_once"},
		},
	}}
}

// rules are the policy in force; nil without one.
func (h *harness) rules() *policy.Holder {
	if h.policy == nil {
		return nil
	}
	return policy.NewHolder(h.policy)
}
