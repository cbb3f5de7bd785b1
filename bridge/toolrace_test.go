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
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/tools"
	"aqueduct/internal/app"
	"aqueduct/internal/fault"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// races is how many schedules are run on each database; "make soak" says more.
func races(t *testing.T) int {
	said := os.Getenv("AQUEDUCT_RACES")
	if said == "" {
		return 150
	}
	n, err := strconv.Atoi(said)
	if err != nil {
		t.Fatalf("AQUEDUCT_RACES: %v", err)
	}
	return n
}

// replica is one server's bridge, with its tools.
type replica struct {
	id       string
	store    store.Store
	sessions *bridge.Sessions
	tools    *tools.Service
	agent    *worker
}

// toolEnv is one or more replicas on one database, an agent that has a tool run, and the
// tool, which counts.
type toolEnv struct {
	t        *testing.T
	replicas []*replica
	ran      sync.Map // ToolCall id → *atomic.Int32
	told     sync.Map // ToolCall id → the store.ToolCall its agent was told
	came     chan string
	hold     atomic.Pointer[chan struct{}] // calls of the tool wait for it
}

func newToolEnv(t *testing.T, open ...func() (store.Store, error)) *toolEnv {
	t.Helper()
	e := &toolEnv{t: t, came: make(chan string, 10)}
	broker := storetest.Broker()
	for i, open := range open {
		st, err := open()
		if err != nil {
			t.Fatal(err)
		}
		e.replicas = append(e.replicas, e.start(st, fmt.Sprint("replica", i), broker))
	}
	err := e.replicas[0].tools.Load(t.Context(), []tools.Definition{{
		Name: "cut", Kind: tools.WireServer, Endpoint: "http://tool/", Policy: json.RawMessage(`{"risk":"high","verdict":"require_approval"}`),
	}, {Name: "fell", Kind: tools.WireServer, Endpoint: "http://tool/", Policy: json.RawMessage(`{"risk":"low"}`)}}, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *toolEnv) start(st store.Store, name string, broker store.Broker) *replica {
	agent := &worker{asked: make(chan string, 1000), told: &e.told}
	agents := bridge.NewDirectory()
	agents.Add("worker", agent)
	made, err := app.New(app.Config{
		Store: st, Broker: broker, Name: name, Logger: slog.New(slog.NewTextHandler(e.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		Auth: auth.None(), Agents: agents, Metrics: server.NewMetrics(), ToolClient: &http.Client{Transport: e}, ToolLimits: tools.Limits{QuestionsPerUser: 1000},
		Limits: bridge.Limits{Quiet: time.Millisecond, QuietMost: 5 * time.Millisecond, QuestionsPerUser: 1000},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	r := &replica{id: made.Replica, store: st, sessions: made.Sessions, tools: made.Tools, agent: agent}
	agent.replica = r
	// The parts run one by one, not by App.Run: a replica that a test fences goes on as one that has not noticed it yet.
	ctx, cancel := context.WithCancel(context.Background())
	if err := st.Register(ctx, store.Replica{ID: r.id, Name: name}); err != nil {
		e.t.Fatal(err)
	}
	driving, stopDriving := context.WithCancel(ctx)
	var upper, lower sync.WaitGroup
	upper.Go(func() { _ = made.Sessions.Run(driving) })
	upper.Go(func() { _ = made.Tools.Run(driving) })
	lower.Go(func() { _ = bridge.Beat(ctx, st, r.id, slog.New(slog.DiscardHandler)) }) // one that is silent for 10 s is fenced by the other
	lower.Go(func() { _ = made.Bell.Run(ctx) })
	lower.Go(func() { _ = made.Events.Run(ctx) })
	e.t.Cleanup(func() {
		stopDriving()
		upper.Wait()
		cancel()
		lower.Wait()
		if err := st.Close(); err != nil {
			e.t.Error(err)
		}
	})
	return r
}

// RoundTrip is the tool.
func (e *toolEnv) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := e.ran.LoadOrStore(r.Header.Get("Idempotency-Key"), new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	_ = r.Body.Close()
	if hold := e.hold.Load(); hold != nil {
		e.came <- r.Header.Get("Idempotency-Key")
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

func (e *toolEnv) runs(id string) int32 {
	if n, ok := e.ran.Load(id); ok {
		return n.(*atomic.Int32).Load()
	}
	return 0
}

// worker is an Agent that has its tool run, waits for the end of that, and ends.
type worker struct {
	replica *replica
	asked   chan string // Session and ToolCall ids of calls that wait
	told    *sync.Map
	holds   bool // it neither waits nor ends
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
	turn, err := a.replica.sessions.AgentRequests().Turn(ctx, call.RunToken)
	if err != nil {
		return
	}
	c, err := a.replica.sessions.AgentRequests().Invoke(ctx, call.RunToken, bridge.ToolRequest{RunID: turn.ID, Name: "cut", Args: []byte(`{"wood":"oak"}`)})
	if err != nil {
		return
	}
	a.asked <- call.SessionID + " " + c.ID
	for !a.holds && !c.Status.Terminal() && ctx.Err() == nil {
		if c, err = a.replica.sessions.AgentRequests().Wait(ctx, call.RunToken, c.ID, time.Minute); err != nil {
			return
		}
	}
	a.told.Store(c.ID, c)
}

func (a *worker) Resume(context.Context, bridge.Call, []approval.Delivery) (bridge.Turn, error) {
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

func (t *workerTurn) Answer(context.Context, approval.Delivery) error { return bridge.ErrCannotResume }
func (t *workerTurn) Cancel(context.Context) error                    { t.cancel(); return nil }

func (t *workerTurn) Release() {
	if t.cancel(); !t.holds {
		<-t.over
	}
}

// question is one that waits, and where.
type question struct{ session, run, id string }

// ask has the agent of a replica call the tool, in a thread of its own.
func (e *toolEnv) ask(ctx context.Context, r *replica) (question, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // an agent that was refused says so to nobody
	defer cancel()
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

var allowIt, rejectIt = approval.Answer{Payload: []byte(`{"approved":true}`)}, approval.Answer{Payload: []byte(`{"approved":false}`)}

// bid is one contender for a Question and its answer.
type bid struct {
	name    string
	pause   time.Duration // before it tries
	try     func() (approval.Settled, error)
	settled approval.Settled
	err     error
}

// field is the four contenders, each after a pause of its own: up to a few times what a
// question takes to be asked on this machine now. Half of the time one has a head start,
// without which a cancel, that asks the owner to act, would seldom be first.
func (e *toolEnv) field(ctx context.Context, r *rand.Rand, q question, pace time.Duration) []*bid {
	anyone := func() *bridge.Sessions { return e.replicas[r.IntN(len(e.replicas))].sessions }
	decide := func(name string, a approval.Answer) *bid {
		s := anyone()
		return &bid{name: name, try: func() (approval.Settled, error) {
			return s.Approvals().Decide(ctx, store.LocalPrincipal(), q.id, a, approval.ViaREST)
		}}
	}
	expiry, cancel := anyone(), anyone()
	field := []*bid{
		decide("APPROVED", allowIt), decide("REJECTED", rejectIt),
		{name: "EXPIRED", try: func() (approval.Settled, error) { expiry.Expire(ctx, q.id); return approval.Settled{}, nil }},
		{name: "CANCELLED", try: func() (approval.Settled, error) {
			_, err := cancel.Cancels().Cancel(ctx, store.LocalPrincipal(), q.run)
			return approval.Settled{}, err
		}},
	}
	ahead, spread := r.IntN(2*len(field)), int64(pace)<<r.IntN(3)
	for i, b := range field {
		if i != ahead {
			b.pause = time.Duration(r.Int64N(spread))
		}
	}
	return field
}

// race lets the four loose on one Question.
func (e *toolEnv) race(ctx context.Context, r *rand.Rand) (string, error) {
	began := time.Now()
	q, err := e.ask(ctx, e.replicas[r.IntN(len(e.replicas))])
	if err != nil {
		return "", err
	}
	field := e.field(ctx, r, q, time.Since(began))
	var all sync.WaitGroup
	for _, b := range field {
		all.Go(func() {
			time.Sleep(b.pause)
			b.settled, b.err = b.try()
		})
	}
	all.Wait()
	return e.judge(ctx, q, field)
}

// judge waits until all is over and checks what is left. It gives what became of the Question
// and of the call.
func (e *toolEnv) judge(ctx context.Context, q question, field []*bid) (string, error) {
	st := e.replicas[0].store
	if err := e.over(ctx, q); err != nil {
		return "", err
	}
	a, err := st.Approval(ctx, store.System(), q.id)
	if err != nil {
		return "", err
	}
	call, err := st.ToolCall(ctx, store.System(), q.id)
	if err != nil {
		return "", err
	}
	ran, end := e.runs(q.id), fmt.Sprintf("%s and %s", a.Status, call.Status)
	switch {
	case a.Status == store.ApprovalApproved && call.Status == store.ToolSucceeded && ran == 1:
	case a.Status == store.ApprovalApproved && call.ErrorCode == tools.CodeCancelled && ran == 0: // before it began
	case a.Status == store.ApprovalRejected && call.ErrorCode == tools.CodeRejected && ran == 0:
	case a.Status == store.ApprovalExpired && call.Status == store.ToolTimeout && ran == 0:
	case a.Status == store.ApprovalCancelled && call.ErrorCode == tools.CodeCancelled && ran == 0:
	default:
		return end, fmt.Errorf("it is %s (%s), and it ran %d times", end, call.ErrorCode, ran)
	}
	return end, errors.Join(signed(a), told(field, a), e.recorded(ctx, q, int(ran)), e.heard(ctx, q, a, call))
}

// over waits until nothing of a thread is under way or open.
func (e *toolEnv) over(ctx context.Context, q question) error {
	if _, err := e.replicas[0].tools.Wait(ctx, store.System(), q.id, 20*time.Second); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		switch what, err := e.left(ctx, q); {
		case err != nil || what == "":
			return err
		case time.Now().After(end):
			return errors.New(what)
		}
	}
}

// left is what of a thread is not over, "" when nothing is.
func (e *toolEnv) left(ctx context.Context, q question) (string, error) {
	st, in := e.replicas[0].store, store.System()
	if turn, err := st.ActiveTurn(ctx, in, q.session); !errors.Is(err, store.ErrNotFound) {
		return "the turn is " + string(turn.Status), err
	}
	if call, err := st.ToolCall(ctx, in, q.id); err != nil || !call.Status.Terminal() {
		return "the call is " + string(call.Status), err
	}
	calls, errC := st.OpenToolCalls(ctx, in, q.session)
	commands, errO := st.PendingCommands(ctx, in, q.session)
	reserved, errR := st.ReservedRuns(ctx, in, q.session)
	if len(calls)+len(commands)+len(reserved) == 0 {
		return "", errors.Join(errC, errO, errR)
	}
	return fmt.Sprintf("%d calls, %d commands and %d runs are open", len(calls), len(commands), len(reserved)), errors.Join(errC, errO, errR)
}

// signed: who settled it is kept, and how.
func signed(a store.Approval) error {
	by, via := store.LocalPrincipal().User, approval.ViaREST
	switch a.Status {
	case store.ApprovalExpired:
		by, via = "system", approval.ViaExpiry
	case store.ApprovalCancelled:
		by, via = store.LocalPrincipal().User, approval.ViaCancel
	default:
	}
	if a.DecidedBy != by || a.DecidedVia != via || a.DecidedAt.IsZero() {
		return fmt.Errorf("it is %s by %q via %q at %v", a.Status, a.DecidedBy, a.DecidedVia, a.DecidedAt)
	}
	return nil
}

// told: one at most is told that it won, and every other who decided, and what. The deadline
// and the cancel are told nothing: nobody asks them.
func told(field []*bid, a store.Approval) error {
	for _, b := range field {
		var no *fault.Error
		decides, won := b.name == "APPROVED" || b.name == "REJECTED", b.name == string(a.Status)
		hears := b.settled.Question.Approval
		switch {
		case !decides && b.err != nil:
			return fmt.Errorf("%s: %w", b.name, b.err)
		case !decides:
		case b.settled.Won != won || won && b.err != nil:
			return fmt.Errorf("it is %s, and %s hears won=%v %w", a.Status, b.name, b.settled.Won, b.err)
		case !won && (!errors.As(b.err, &no) || no.Code != approval.AlreadyDecided):
			return fmt.Errorf("%s lost and hears %w", b.name, b.err)
		case hears.Status != a.Status || hears.DecidedBy != a.DecidedBy || hears.DecidedVia != a.DecidedVia || !hears.DecidedAt.Equal(a.DecidedAt):
			return fmt.Errorf("%s hears %s by %s via %s, and it is %s by %s via %s", b.name,
				hears.Status, hears.DecidedBy, hears.DecidedVia, a.Status, a.DecidedBy, a.DecidedVia)
		}
	}
	return nil
}

// recorded: what is on record happened, once.
func (e *toolEnv) recorded(ctx context.Context, q question, ran int) error {
	trace, err := e.replicas[0].store.RecordsOfTurn(ctx, store.System(), q.run, store.Page{Limit: store.MaxPageLimit})
	n := make(map[string]int)
	for _, r := range trace {
		n[r.Type]++
	}
	if err == nil && (n["approval_decision"] != 1 || n["tool_dispatched"] != ran || n["tool_result"] != 1) {
		err = fmt.Errorf("it ran %d times, and on record is %v", ran, n)
	}
	return err
}

// heard: the chat's log goes on to its end and says of the Question what is so, and an agent
// that was heard out knows what became of its call.
func (e *toolEnv) heard(ctx context.Context, q question, a store.Approval, call store.ToolCall) error {
	st := e.replicas[0].store
	rows, err := st.Events(ctx, store.System(), q.session, 0, 1<<20)
	if err != nil {
		return err
	}
	turn, err := st.Turn(ctx, store.System(), q.run)
	if err != nil {
		return err
	}
	var log []byte
	eventlog.Each(rows, func(_ int64, event []byte) bool { log = append(append(log, event...), '\n'); return true })
	open, shown, results := false, 0, 0
	outcome := ""
	for line := range bytes.Lines(log) {
		var e struct {
			Type, ToolCallID, Content string
			Outcome                   struct{ Type string }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		switch {
		case e.Type == "RUN_STARTED":
			open = true
		case e.Type == "RUN_FINISHED", e.Type == "RUN_ERROR":
			if open = false; e.Outcome.Type != "" { // else the Turn was over before this Run began
				outcome = e.Type + " " + e.Outcome.Type
			}
		case e.Type == "TOOL_CALL_START" && e.ToolCallID == q.id:
			shown++
		case e.Type == "TOOL_CALL_RESULT" && e.ToolCallID == q.id:
			results++
			says := strings.Contains(e.Content, strings.ToLower(string(a.Status)))
			if a.Status == store.ApprovalApproved && (turn.Status == store.TurnDone || !says) { // the tool's own result
				says = call.Status == store.ToolSucceeded && e.Content == `{"cut":true}` || call.Status == store.ToolFailed && strings.Contains(e.Content, call.ErrorCode)
			}
			if !says {
				return fmt.Errorf("it is %s and %s, and the chat hears %s", a.Status, call.Status, e.Content)
			}
		}
	}
	want := map[store.TurnStatus]string{store.TurnDone: "RUN_FINISHED success", store.TurnCancelled: "RUN_FINISHED cancelled"}[turn.Status]
	if open || shown > 1 || results != shown || outcome != want {
		return fmt.Errorf("the turn is %s, and the log is %s", turn.Status, log)
	}
	heard, _ := e.told.Load(q.id)
	if c, ok := heard.(store.ToolCall); turn.Status == store.TurnDone && (!ok || c.Status != call.Status || c.ErrorCode != call.ErrorCode) {
		return fmt.Errorf("the call is %s, and the agent hears %s", call.Status, c.Status)
	}
	return nil
}

// TestToolRaces: two decisions, the deadline and a cancel of the Turn, all at once: one final
// state, run at most once and only when approved, every loser told.
func TestToolRaces(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := storetest.SQLite(t)
		testToolRaces(t, newToolEnv(t, func() (store.Store, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) }))
	})
	t.Run("postgres", func(t *testing.T) {
		open := func(dsn string) func() (store.Store, error) {
			return func() (store.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Options{}) }
		}
		dsn := storetest.Postgres(t)
		testToolRaces(t, newToolEnv(t, open(dsn), open(dsn)))
	})
}

// atOnce is how many schedules run beside each other, each in a thread of its own: most of one
// is waiting for commits.
const atOnce = 32

func testToolRaces(t *testing.T, e *toolEnv) {
	began, seed, most := time.Now(), uint64(time.Now().UnixNano()), int64(races(t))
	var n, bad atomic.Int64
	var mu sync.Mutex
	ends, won := make(map[string]int), make(map[string]int)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := n.Add(1); i <= most && bad.Load() == 0; i = n.Add(1) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				end, err := e.race(ctx, rand.New(rand.NewPCG(seed, uint64(i))))
				cancel()
				if err != nil {
					bad.Add(1)
					t.Errorf("seed %d, schedule %d: %v", seed, i, err)
					return
				}
				mu.Lock()
				ends[end]++
				won[strings.Fields(end)[0]]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d schedules in %v: %v", most, time.Since(began).Round(time.Second), ends)
	if len(won) < 4 && !t.Failed() {
		t.Errorf("these are no races: %v", won)
	}
	e.ran.Range(func(id, n any) bool {
		if n := n.(*atomic.Int32).Load(); n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
		return true
	})
}

// TestToolDecidedByAHundred: a hundred say the same at once, to two replicas: one settles it,
// all hear the same, and the tool runs once.
func TestToolDecidedByAHundred(t *testing.T) {
	dsn := storetest.Postgres(t)
	open := func() (store.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Options{}) }
	e := newToolEnv(t, open, open)
	rounds := 0
	for ; rounds < 10 && !t.Failed(); rounds++ {
		q, err := e.ask(t.Context(), e.replicas[rounds%2])
		if err != nil {
			t.Fatal(err)
		}
		var won, repeated atomic.Int32
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 100 {
			all.Go(func() {
				<-start
				got, err := e.replicas[i%2].sessions.Approvals().Decide(t.Context(), store.LocalPrincipal(), q.id, allowIt, approval.ViaREST)
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
		call, err := e.replicas[0].tools.Wait(t.Context(), store.System(), q.id, 20*time.Second)
		if err != nil || call.Status != store.ToolSucceeded || won.Load() != 1 || repeated.Load() != 99 || e.runs(q.id) != 1 {
			t.Errorf("%d won, %d repeated, it is %s and ran %d times: %v", won.Load(), repeated.Load(), call.Status, e.runs(q.id), err)
		}
	}
	t.Logf("%d races of 100 identical decisions on two replicas", rounds)
}
