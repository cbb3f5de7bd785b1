package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// raceFor is how long races are run on each database.
const raceFor = 8 * time.Second

// replica is one server's bridge, with its tools.
type replica struct {
	id       string
	store    store.Store
	sessions *bridge.Sessions
	tools    *tools.Service
	agent    *worker
}

// workbench is one or more replicas on one database, an agent that has a tool run, and the
// tool, which counts.
type workbench struct {
	t        *testing.T
	replicas []*replica
	ran      sync.Map // ToolCall id → *atomic.Int32
	came     chan string
	hold     atomic.Pointer[chan struct{}] // calls of the tool wait for it
}

func newWorkbench(t *testing.T, open ...func() (store.Store, error)) *workbench {
	t.Helper()
	w := &workbench{t: t, came: make(chan string, 10)}
	broker := local.New()
	for i, open := range open {
		st, err := open()
		if err != nil {
			t.Fatal(err)
		}
		w.replicas = append(w.replicas, w.start(st, fmt.Sprint("replica", i), broker))
	}
	err := w.replicas[0].tools.Load(t.Context(), []tools.Definition{{
		Name: "cut", Kind: tools.WireServer, Endpoint: "http://tool/", Policy: json.RawMessage(`{"risk":"high","verdict":"require_approval"}`),
	}, {Name: "fell", Kind: tools.WireServer, Endpoint: "http://tool/", Policy: json.RawMessage(`{"risk":"low"}`)}}, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *workbench) start(st store.Store, name string, broker *local.Broker) *replica {
	id := uuid.NewString()
	ctx, cancel := context.WithCancel(context.Background())
	if err := st.Register(ctx, store.Replica{ID: id, Name: name}); err != nil {
		w.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	bell := eventlog.NewBell(broker)
	log := eventlog.New(eventlog.Config{Store: st, Bell: bell, Replica: id, Logger: logger})
	r := &replica{id: id, store: st, agent: &worker{asked: make(chan string, 1000)}}
	r.tools = tools.New(tools.Config{
		Store: st, Replica: id, Policy: policy.Default, Keep: log.Keep, Ring: func(id string) { bell.Ring(id) }, Listen: bell.Overhear,
		Listeners: bell.Listeners, Client: &http.Client{Transport: w}, Logger: logger,
	})
	agents := bridge.NewDirectory()
	agents.Add("worker", r.agent)
	r.sessions = bridge.New(bridge.Config{
		Store: st, Log: log, Bell: bell, Replica: id, Agents: agents, Logger: logger, Tools: r.tools,
		Limits: bridge.Limits{Quiet: time.Millisecond, QuietMost: 5 * time.Millisecond},
	})
	r.agent.replica = r
	driving, stopDriving := context.WithCancel(ctx)
	var upper, lower sync.WaitGroup
	upper.Go(func() { _ = r.sessions.Run(driving) })
	upper.Go(func() { _ = r.tools.Run(driving) })
	lower.Go(func() { _ = bell.Run(ctx) })
	lower.Go(func() { _ = log.Run(ctx) })
	w.t.Cleanup(func() {
		stopDriving()
		upper.Wait()
		cancel()
		lower.Wait()
		if err := st.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

// RoundTrip is the tool.
func (w *workbench) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := w.ran.LoadOrStore(r.Header.Get("Idempotency-Key"), new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	_ = r.Body.Close()
	if hold := w.hold.Load(); hold != nil {
		w.came <- r.Header.Get("Idempotency-Key")
		select {
		case <-*hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader([]byte(`{"cut":true}`))),
	}, nil
}

func (w *workbench) runs(id string) int32 {
	if n, ok := w.ran.Load(id); ok {
		return n.(*atomic.Int32).Load()
	}
	return 0
}

// worker is an Agent that has its tool run, waits for the end of that, and ends.
type worker struct {
	replica *replica
	asked   chan string // Session and ToolCall ids of calls that wait
	holds   bool        // it neither waits nor ends
	uses    func(ctx context.Context, call bridge.Call)
}

func (a *worker) Start(_ context.Context, call bridge.Call) (bridge.Turn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &workerTurn{cancel: cancel, over: make(chan struct{}), holds: a.holds}
	go func() {
		if a.work(ctx, call); !a.holds {
			close(t.over)
		}
	}()
	return t, nil
}

func (a *worker) work(ctx context.Context, call bridge.Call) {
	if a.uses != nil {
		a.uses(ctx, call)
		return
	}
	turn, err := a.replica.sessions.AgentTurn(ctx, call.RunToken)
	if err != nil {
		return
	}
	c, err := a.replica.sessions.InvokeTool(ctx, call.RunToken, bridge.ToolRequest{RunID: turn.ID, Name: "cut", Args: []byte(`{"wood":"oak"}`)})
	if err != nil {
		return
	}
	a.asked <- call.SessionID + " " + c.ID
	for !a.holds && !c.Status.Terminal() && ctx.Err() == nil {
		if c, err = a.replica.sessions.WaitTool(ctx, turn, c.ID, time.Minute); err != nil {
			return
		}
	}
}

func (a *worker) Resume(context.Context, bridge.Call, []bridge.Answer) (bridge.Turn, error) {
	return nil, bridge.ErrCannotResume
}

type workerTurn struct {
	cancel context.CancelFunc
	over   chan struct{}
	holds  bool
}

func (t *workerTurn) Next(ctx context.Context) ([]bridge.Output, error) {
	select {
	case <-t.over:
		return []bridge.Output{{End: &bridge.End{}}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *workerTurn) Answer(context.Context, bridge.Answer) error { return bridge.ErrCannotResume }
func (t *workerTurn) Cancel(context.Context) error                { t.cancel(); return nil }

func (t *workerTurn) Release() {
	if t.cancel(); !t.holds {
		<-t.over
	}
}

// question is one that waits, and where.
type question struct{ session, run, id string }

// ask has the agent of a replica call the tool, in a thread of its own.
func (w *workbench) ask(ctx context.Context, r *replica) (question, error) {
	req := ask(uuid.NewString(), "go")
	req.Principal, req.Dialect, req.BodyHash = store.LocalPrincipal(), bridge.DialectV1, []byte("x")
	reply, err := r.sessions.Chat(ctx, req)
	if err != nil {
		return question{}, err
	}
	select {
	case said := <-r.agent.asked:
		q := question{session: said[:36], id: said[37:]}
		run, err := r.store.LastRun(ctx, store.System(), q.session)
		q.run = run.ID
		_ = reply
		return q, err
	case <-ctx.Done():
		return question{}, ctx.Err()
	}
}

var allowIt, rejectIt = inbox.Answer{Payload: []byte(`{"approved":true}`)}, inbox.Answer{Payload: []byte(`{"approved":false}`)}

// bid is one contender for a Question and what it was told.
type bid struct {
	name    string
	try     func() (inbox.Settled, error)
	settled inbox.Settled
	err     error
}

func (w *workbench) field(ctx context.Context, r *rand.Rand, q question) []*bid {
	any := func() *bridge.Sessions { return w.replicas[r.IntN(len(w.replicas))].sessions }
	decide := func(name string, a inbox.Answer) *bid {
		s := any()
		return &bid{name: name, try: func() (inbox.Settled, error) {
			return s.Decide(ctx, store.LocalPrincipal(), q.id, a, inbox.ViaREST)
		}}
	}
	expiry, cancel := any(), any()
	field := []*bid{
		decide("APPROVED", allowIt), decide("REJECTED", rejectIt),
		{name: "EXPIRED", try: func() (inbox.Settled, error) { expiry.Expire(ctx, q.id); return inbox.Settled{}, nil }},
		{name: "CANCELLED", try: func() (inbox.Settled, error) {
			_, err := cancel.Cancel(ctx, store.LocalPrincipal(), q.run)
			return inbox.Settled{}, err
		}},
	}
	r.Shuffle(len(field), func(i, j int) { field[i], field[j] = field[j], field[i] })
	return field
}

// race lets the four loose on one Question.
func (w *workbench) race(ctx context.Context, r *rand.Rand) (won string, err error) {
	q, err := w.ask(ctx, w.replicas[r.IntN(len(w.replicas))])
	if err != nil {
		return "", err
	}
	field := w.field(ctx, r, q)
	start := make(chan struct{})
	var all sync.WaitGroup
	ahead := r.IntN(3) == 0 // a cancel is a request to the owner, and needs a head start to win
	for i, b := range field {
		yields, looks := r.IntN(20)+i*r.IntN(30), r.IntN(900/len(w.replicas))
		all.Go(func() {
			<-start
			for range yields {
				runtime.Gosched()
			}
			for range looks {
				if !ahead || b.name == "CANCELLED" {
					break
				}
				_, _ = w.replicas[0].store.Approval(ctx, store.System(), q.id) // takes a while
			}
			b.settled, b.err = b.try()
		})
	}
	close(start)
	all.Wait()
	return w.judge(ctx, q, field)
}

// judge waits until all is over and checks what is left.
func (w *workbench) judge(ctx context.Context, q question, field []*bid) (string, error) {
	st := w.replicas[0].store
	call, err := w.replicas[0].tools.Wait(ctx, store.System(), q.id, 20*time.Second)
	if err != nil || !call.Status.Terminal() {
		return "", fmt.Errorf("the call is %s: %w", call.Status, err)
	}
	a, err := st.Approval(ctx, store.System(), q.id)
	if err != nil {
		return "", err
	}
	for range 2000 {
		_, err := st.ActiveTurn(ctx, store.System(), q.session)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if _, err := st.ActiveTurn(ctx, store.System(), q.session); !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("the turn does not end: %w", err)
	}
	winners := 0
	for _, b := range field {
		if b.settled.Won {
			winners++
			if string(a.Status) != b.name {
				return "", fmt.Errorf("%s won, and it is %s", b.name, a.Status)
			}
			continue
		}
		var no *bridge.Refusal
		decides := b.name == "APPROVED" || b.name == "REJECTED"
		switch {
		case !decides && b.err != nil:
			return "", fmt.Errorf("%s: %w", b.name, b.err)
		case decides && (!errors.As(b.err, &no) || no.Code != bridge.RefusedDecided):
			return "", fmt.Errorf("%s lost and hears %w", b.name, b.err)
		case decides && b.settled.Question.Approval.Status != a.Status:
			return "", fmt.Errorf("%s lost and is told %s, not %s", b.name, b.settled.Question.Approval.Status, a.Status)
		}
	}
	ran := w.runs(q.id)
	switch {
	case winners > 1 || winners == 0 && (a.Status == store.ApprovalApproved || a.Status == store.ApprovalRejected):
		return "", fmt.Errorf("%d winners, and it is %s", winners, a.Status)
	case a.Status == store.ApprovalApproved && call.Status == store.ToolSucceeded && ran == 1:
	case a.Status == store.ApprovalApproved && call.Status == store.ToolFailed && ran == 0: // cancelled before it ran
	case a.Status == store.ApprovalRejected && call.ErrorCode == tools.CodeRejected && ran == 0:
	case a.Status == store.ApprovalExpired && call.Status == store.ToolTimeout && ran == 0:
	case a.Status == store.ApprovalCancelled && call.ErrorCode == tools.CodeCancelled && ran == 0:
	default:
		return "", fmt.Errorf("%s, the call is %s (%s), and it ran %d times", a.Status, call.Status, call.ErrorCode, ran)
	}
	return string(a.Status), nil
}

// TestToolRaces: two decisions, the deadline and a cancel of the Turn, all at once: one final
// state, run at most once and only when approved, every loser told.
func TestToolRaces(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := storetest.SQLite(t)
		testToolRaces(t, newWorkbench(t, func() (store.Store, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) }))
	})
	t.Run("postgres", func(t *testing.T) {
		open := func(dsn string) func() (store.Store, error) {
			return func() (store.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Options{}) }
		}
		dsn := storetest.Postgres(t)
		testToolRaces(t, newWorkbench(t, open(dsn), open(dsn)))
	})
}

func testToolRaces(t *testing.T, w *workbench) {
	seed, until := uint64(time.Now().UnixNano()), time.Now().Add(raceFor)
	var n, bad atomic.Int64
	var mu sync.Mutex
	won := make(map[string]int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for bad.Load() == 0 && time.Now().Before(until) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				i := n.Add(1)
				who, err := w.race(ctx, rand.New(rand.NewPCG(seed, uint64(i))))
				cancel()
				if err != nil {
					bad.Add(1)
					t.Errorf("seed %d, schedule %d: %v", seed, i, err)
					return
				}
				mu.Lock()
				won[who]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d schedules, won by %v", n.Load(), won)
	if len(won) < 3 && !t.Failed() {
		t.Errorf("the schedules are not random: %v", won)
	}
}

// TestToolDecidedByAHundred: a hundred say the same at once, to two replicas: one settles it,
// all hear the same, and the tool runs once.
func TestToolDecidedByAHundred(t *testing.T) {
	dsn := storetest.Postgres(t)
	open := func() (store.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Options{}) }
	w := newWorkbench(t, open, open)
	rounds := 0
	for until := time.Now().Add(2 * raceFor); time.Now().Before(until) && rounds < 100 && !t.Failed(); rounds++ {
		q, err := w.ask(t.Context(), w.replicas[rounds%2])
		if err != nil {
			t.Fatal(err)
		}
		var won, repeated atomic.Int32
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 100 {
			all.Go(func() {
				<-start
				got, err := w.replicas[i%2].sessions.Decide(t.Context(), store.LocalPrincipal(), q.id, allowIt, inbox.ViaREST)
				switch {
				case err != nil || got.Question.Approval.Status != store.ApprovalApproved:
					t.Errorf("hears %s %v", got.Question.Approval.Status, err)
				case got.Won:
					won.Add(1)
				case got.Repeated:
					repeated.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		call, err := w.replicas[0].tools.Wait(t.Context(), store.System(), q.id, 20*time.Second)
		if err != nil || call.Status != store.ToolSucceeded || won.Load() != 1 || repeated.Load() != 99 || w.runs(q.id) != 1 {
			t.Errorf("%d won, %d repeated, it is %s and ran %d times: %v", won.Load(), repeated.Load(), call.Status, w.runs(q.id), err)
		}
	}
	t.Logf("%d races of 100 identical decisions on two replicas", rounds)
}
