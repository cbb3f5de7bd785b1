package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/sqldb"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// toolEnv is a Service on a real SQLite store, with one Turn under way. The tools' endpoints are a function.
type toolEnv struct {
	*tools.Service
	t       *testing.T
	store   store.Store
	replica string
	turn    store.Turn
	session store.Session
	armed   chan string
	online  bool // a client listens

	mu       sync.Mutex
	endpoint func(*http.Request) (*http.Response, error)
	requests []string // the tool call ids that reached the endpoint
}

// awayStore is a store whose database goes away in the moment in which a call is RUNNING, and eats the answer of a transaction.
type awayStore struct {
	store.Store
	reads atomic.Int32 // reads of a RUNNING call, by those who execute, that are not answered yet
	eaten atomic.Bool  // the next transaction's answer is lost
}

func (s *awayStore) ToolCall(ctx context.Context, in store.Scope, id string) (call store.ToolCall, err error) {
	err = sqldb.Patiently(ctx, func() error {
		call, err = s.Store.ToolCall(ctx, in, id)
		if err == nil && store.WantsOriginals(ctx) && call.Status == store.ToolRunning && s.reads.Add(-1) >= 0 {
			return store.ErrUnavailable
		}
		return err
	})
	return call, err
}

func (s *awayStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.InTx(ctx, fn)
	if err == nil && s.eaten.CompareAndSwap(true, false) {
		return store.ErrUnknownOutcome
	}
	return err
}

// answer is an endpoint that answers every call alike.
func answer(status int, contentType, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// RoundTrip implements http.RoundTripper.
func (e *toolEnv) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	e.requests = append(e.requests, r.Header.Get("Idempotency-Key"))
	endpoint := e.endpoint
	e.mu.Unlock()
	return endpoint(r)
}

func (e *toolEnv) executions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.requests)
}

// definitions are the tools of every toolEnv: one for each verdict, and one that ends the run when it fails.
func definitions() []tools.Definition {
	const endpoint = "http://tool/"
	return []tools.Definition{
		{Name: "look", Kind: tools.WireServer, Endpoint: endpoint, Policy: json.RawMessage(`{"risk":"low"}`), Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
		{Name: "cut", Kind: tools.WireServer, Endpoint: endpoint, Policy: json.RawMessage(`{"risk":"high","verdict":"require_approval","may_edit":true}`)},
		{Name: "burn", Kind: tools.WireServer, Endpoint: endpoint, Policy: json.RawMessage(`{"risk":"high","verdict":"block","reason":"No fire."}`)},
		{Name: "show", Kind: tools.WireClient, Policy: json.RawMessage(`{"risk":"low"}`)},
		{Name: "vital", Kind: tools.WireServer, Endpoint: endpoint, Policy: json.RawMessage(`{"risk":"low"}`), OnFailure: store.FailureEndsRun},
		{Name: "slow", Kind: tools.WireServer, Endpoint: endpoint, Policy: json.RawMessage(`{"risk":"low"}`), TimeoutMS: 20},
	}
}

func newToolEnv(t *testing.T, limits tools.Limits) *toolEnv {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &toolEnv{t: t, store: &awayStore{Store: st}, replica: uuid.NewString(), armed: make(chan string, 64), endpoint: answer(http.StatusOK, "application/json", `{"ok":true}`)}
	e.must(st.Register(t.Context(), store.Replica{ID: e.replica, Name: "test"}))
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	bell := eventlog.NewBell(storetest.Broker())
	log := eventlog.New(eventlog.Config{Store: st, Bell: bell, Replica: e.replica, Logger: logger})
	e.Service = tools.New(tools.Config{
		Store: e.store, Replica: e.replica, Policy: policy.Default, Keep: log.Keep, Ring: func(id string) { bell.Ring(id) }, Listen: bell.Watch,
		Listeners: func(string) int {
			if e.online {
				return 1
			}
			return 0
		},
		Callback: func(context.Context, store.Reader, string) (bool, error) { return false, nil },
		Client:   &http.Client{Transport: e}, Logger: logger, Limits: limits,
	})
	e.Use(&approval.Settler{
		NewID: uuid.NewString, Calls: e.Service, Once: func(string, error) {},
	}, func(id string, _ time.Duration) { e.armed <- id }, nil)
	e.must(e.Load(t.Context(), definitions(), func(string) error { return nil }))
	now := time.Now()
	e.session = store.Session{ID: newID(), Tenant: "local", User: "ada", ExternalID: "T", AgentID: "a", Owner: e.replica, CreatedAt: now, UpdatedAt: now}
	e.turn = store.Turn{ID: newID(), SessionID: e.session.ID, AgentID: "a", Status: store.TurnQueued, CreatedAt: now}
	e.must(st.InTx(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.InsertSession(t.Context(), e.session), tx.InsertTurn(t.Context(), e.turn))
	}))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = bell.Run(ctx) })
	running.Go(func() { _ = log.Run(ctx) })
	running.Go(func() { _ = e.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		e.must(st.Close())
	})
	e.waitForRun()
	return e
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (e *toolEnv) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// call invokes a tool for the Turn under way. The client declares one tool, "paint".
func (e *toolEnv) call(name string, change ...func(*tools.Request)) (store.ToolCall, error) {
	req := tools.Request{
		Caller: tools.Caller{TurnID: e.turn.ID, Session: e.session, By: policy.Principal{User: "ada"}}, Name: name,
		Declared: func(context.Context, store.Reader) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"paint": json.RawMessage(`{"type":"object"}`), approval.PermissionTool: nil}, nil
		},
	}
	for _, c := range change {
		c(&req)
	}
	return e.Invoke(e.t.Context(), req)
}

// decide settles the Question about a call, as the engine does: in a transaction, and then by Decided.
func (e *toolEnv) decide(id string, a approval.Answer) approval.Settled {
	e.t.Helper()
	var settled approval.Settled
	settler := &approval.Settler{
		NewID: uuid.NewString, Calls: e.Service, Once: func(string, error) {},
	}
	e.must(e.store.InTx(e.t.Context(), func(tx store.Tx) error {
		q, err := approval.Load(e.t.Context(), tx, store.System(), id)
		if err != nil {
			return err
		}
		d, err := approval.OptionIDs{}.Read(e.t.Context(), q, a)
		if err != nil {
			return err
		}
		d.By, d.Via = "ada", approval.ViaREST
		settled, err = settler.Apply(e.t.Context(), tx, e.session, q, d, store.Principal{Tenant: "local", User: "ada"})
		return err
	}))
	e.Decided(settled.Question)
	return settled
}

// ended waits for the end of a call.
func (e *toolEnv) ended(id string) store.ToolCall {
	e.t.Helper()
	call, err := e.Wait(e.t.Context(), store.System(), id, time.Minute)
	e.must(err)
	return call
}

// has checks the status and the code of a call.
func (e *toolEnv) has(call store.ToolCall, status store.ToolCallStatus, code string) {
	e.t.Helper()
	if call.Status != status || call.ErrorCode != code {
		e.t.Errorf("%s is %s %q (%s), want %s %q", call.Name, call.Status, call.ErrorCode, call.Error, status, code)
	}
}

// refused checks the code of an error, and that nothing was executed for it.
func (e *toolEnv) refused(err error, code string) {
	e.t.Helper()
	if fault.CodeOf(err) != code {
		e.t.Errorf("the error is %v, want %s", err, code)
	}
}

// endTurn ends the Turn under way, as its owner would.
func (e *toolEnv) endTurn(to store.TurnStatus) {
	e.t.Helper()
	_, err := e.store.Commit(e.t.Context(), &store.Batch{Replica: e.replica, Moves: []store.Move{
		store.TurnMove{ID: e.turn.ID, From: []store.TurnStatus{store.TurnQueued}, To: to, EndedAt: time.Now()},
	}})
	e.must(err)
}

// waitForRun calls a tool for a Turn of its own until Run executes calls.
func (e *toolEnv) waitForRun() {
	e.t.Helper()
	probe := store.Turn{ID: newID(), SessionID: e.session.ID, AgentID: "a", Status: store.TurnQueued, CreatedAt: time.Now()}
	e.must(e.store.InTx(e.t.Context(), func(tx store.Tx) error { return tx.InsertTurn(e.t.Context(), probe) }))
	for {
		_, err := e.call("look", func(r *tools.Request) { r.TurnID = probe.ID })
		if err == nil {
			break
		}
		e.refused(err, tools.CodeBusy)
		runtime.Gosched()
	}
	e.mu.Lock()
	e.requests = nil
	e.mu.Unlock()
}
