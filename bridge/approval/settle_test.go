package approval_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// schedules is how many races are run on each database.
const schedules = 600

func TestSettleRaces(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
		testSettleRaces(t, st, err)
	})
	t.Run("postgres", func(t *testing.T) {
		st, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{})
		testSettleRaces(t, st, err)
	})
}

func testSettleRaces(t *testing.T, st store.Store, err error) {
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := &harness{Store: st, replica: uuid.NewString()}
	if err := st.Register(t.Context(), store.Replica{ID: h.replica, Name: "n"}); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	var next, bad atomic.Int64
	wins := make([]map[string]int, 6)
	var workers sync.WaitGroup
	for i := range wins {
		wins[i] = make(map[string]int)
		workers.Go(func() {
			session, err := h.session(t.Context())
			for err == nil && bad.Load() == 0 {
				n := next.Add(1)
				if n > schedules {
					return
				}
				var winner string
				winner, err = h.race(t.Context(), session, rand.New(rand.NewPCG(seed, uint64(n))))
				wins[i][winner]++
			}
			if err != nil {
				bad.Add(1)
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	workers.Wait()
	total := make(map[string]int)
	for _, w := range wins {
		for name, n := range w {
			total[name] += n
		}
	}
	t.Logf("%d schedules, won by %v", schedules, total)
	for _, name := range []string{"approve", "reject", "expiry", "cancel"} {
		if total[name] == 0 && !t.Failed() {
			t.Errorf("%s never won: the schedules are not random", name)
		}
	}
}

type harness struct {
	store.Store
	replica string
}

func (h *harness) session(ctx context.Context) (string, error) {
	id, now := uuid.NewString(), time.UnixMilli(1)
	return id, h.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertSession(ctx, store.Session{ID: id, Tenant: "t", User: "u", ExternalID: id, AgentID: "a", CreatedAt: now, UpdatedAt: now})
	})
}

// ask inserts a Question.
func (h *harness) ask(ctx context.Context, session string) (approval.Question, error) {
	id, turn, now := uuid.Must(uuid.NewV7()).String(), uuid.NewString(), time.UnixMilli(1)
	q := approval.Question{
		Call: store.ToolCall{ID: id, SessionID: session, TurnID: turn, Name: approval.PermissionTool, Kind: store.KindQuestion,
			Status: store.ToolWaitingApproval, CreatedAt: now},
		Approval: store.Approval{ID: id, SessionID: session, TurnID: turn, Kind: store.ApprovalPermission, Status: store.ApprovalPending,
			Options: []byte(`[{"id":"yes","label":"","kind":"allow_once"},{"id":"no","label":"","kind":"reject_once"}]`), CreatedAt: now},
	}
	_, err := h.Commit(ctx, &store.Batch{Replica: h.replica, Moves: []store.Move{
		store.InsertToolCall{ToolCall: q.Call}, store.InsertApproval{Approval: q.Approval}}})
	return q, err
}

// contender tries to settle a Question.
type contender struct {
	name   string
	status store.ApprovalStatus
	try    func() (won, repeated bool, as approval.Question, err error)
}

// settle is a request: it reads, decides and settles in one transaction.
func (h *harness) settle(ctx context.Context, q approval.Question, decide func(approval.Question) (approval.Decision, error)) func() (bool, bool, approval.Question, error) {
	return func() (won, repeated bool, as approval.Question, err error) {
		err = h.InTx(ctx, func(tx store.Tx) error {
			if _, err := tx.LockSession(ctx, store.System(), q.Call.SessionID); err != nil {
				return err
			}
			now, err := approval.Load(ctx, tx, store.System(), q.Call.ID)
			if err != nil {
				return err
			}
			d, err := decide(now)
			if err != nil {
				return err
			}
			s, err := approval.Settle(ctx, tx, now, d, time.UnixMilli(2))
			won, repeated, as = s.Won, s.Repeated, s.Question
			return err
		})
		return won, repeated, as, err
	}
}

func (h *harness) person(ctx context.Context, q approval.Question, who, option string) func() (bool, bool, approval.Question, error) {
	return h.settle(ctx, q, func(q approval.Question) (approval.Decision, error) {
		d, err := approval.OptionIDs{}.Read(ctx, q, approval.Answer{Payload: []byte(`{"optionId":"` + option + `"}`)})
		d.By, d.Via = who, approval.ViaREST
		return d, err
	})
}

// owner withdraws the Question as a Turn's owner does: by its Batch.
func (h *harness) owner(ctx context.Context, q approval.Question) func() (bool, bool, approval.Question, error) {
	return func() (bool, bool, approval.Question, error) {
		d := approval.CancelledBy("")
		res, err := h.Commit(ctx, &store.Batch{Replica: h.replica, Moves: []store.Move{
			store.ToolCallMove{ID: q.Call.ID, From: q.Call.Status, To: store.ToolFailed, ErrorCode: d.ErrorCode, Result: d.Result},
			store.ApprovalMove{ID: q.Call.ID, To: store.ApprovalCancelled, DecidedBy: d.By, DecidedVia: d.Via},
		}})
		if err != nil {
			return false, false, q, err
		}
		if n := len(res.Lost); n == 1 {
			return false, false, q, fmt.Errorf("the withdrawal was made by half: lost %v", res.Lost)
		}
		now, err := approval.Load(ctx, h, store.System(), q.Call.ID)
		return len(res.Lost) == 0, false, now, err
	}
}

// race lets a random choice of contenders loose on one Question and checks what is left.
func (h *harness) race(ctx context.Context, session string, r *rand.Rand) (winner string, err error) {
	q, err := h.ask(ctx, session)
	if err != nil {
		return "", err
	}
	field := []contender{
		{"approve", store.ApprovalApproved, h.person(ctx, q, "ada", "yes")},
		{"reject", store.ApprovalRejected, h.person(ctx, q, "bob", "no")},
		{"approve", store.ApprovalApproved, h.person(ctx, q, "cyd", "yes")}, // the same again
		{"expiry", store.ApprovalExpired, h.settle(ctx, q, func(q approval.Question) (approval.Decision, error) { return approval.Expired(), nil })},
		{"cancel", store.ApprovalCancelled, h.owner(ctx, q)},
	}
	r.Shuffle(len(field), func(i, j int) { field[i], field[j] = field[j], field[i] })
	field = field[:2+r.IntN(len(field)-1)]
	if r.IntN(4) == 0 { // one after the other: who comes late must be told too
		return h.judge(ctx, q, field, func(run func(int)) {
			for i := range field {
				run(i)
			}
		})
	}
	yields := make([]int, len(field))
	for i := range yields {
		yields[i] = r.IntN(20)
	}
	return h.judge(ctx, q, field, func(run func(int)) {
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range field {
			all.Go(func() {
				<-start
				for range yields[i] {
					runtime.Gosched()
				}
				run(i)
			})
		}
		close(start)
		all.Wait()
	})
}

// judge runs the contenders and checks: one winner, one final state, and every loser has
// been told it.
func (h *harness) judge(ctx context.Context, q approval.Question, field []contender, all func(func(int))) (string, error) {
	won, repeated, told, errs := make([]bool, len(field)), make([]bool, len(field)), make([]approval.Question, len(field)), make([]error, len(field))
	all(func(i int) { won[i], repeated[i], told[i], errs[i] = field[i].try() })
	for i, err := range errs {
		if err != nil {
			return "", fmt.Errorf("%s: %w", field[i].name, err)
		}
	}
	w := slices.Index(won, true)
	if w < 0 || slices.Contains(won[w+1:], true) {
		return "", fmt.Errorf("winners %v", won)
	}
	last, err := approval.Load(ctx, h, store.System(), q.Call.ID)
	if err != nil {
		return "", err
	}
	call := map[store.ApprovalStatus]store.ToolCallStatus{
		store.ApprovalApproved: store.ToolDispatched, store.ApprovalRejected: store.ToolFailed,
		store.ApprovalExpired: store.ToolTimeout, store.ApprovalCancelled: store.ToolFailed,
	}
	if last.Approval.Status != field[w].status || last.Call.Status != call[field[w].status] {
		return "", fmt.Errorf("%s won, and the rows say %s and %s", field[w].name, last.Approval.Status, last.Call.Status)
	}
	for i := range field {
		a := told[i].Approval
		if a.Status != last.Approval.Status || a.DecidedBy != last.Approval.DecidedBy || told[i].Call.Status != last.Call.Status {
			return "", fmt.Errorf("%s is told %s by %q, not %s by %q", field[i].name, a.Status, a.DecidedBy, last.Approval.Status, last.Approval.DecidedBy)
		}
		if same := i != w && field[i].name == field[w].name; repeated[i] != same {
			return "", fmt.Errorf("%s after %s is a repeat: %t", field[i].name, field[w].name, repeated[i])
		}
	}
	records, err := h.RecordsOfTurn(ctx, store.System(), q.Call.TurnID, store.Page{})
	want := 1
	if field[w].name == "cancel" {
		want = 0 // the owner's Batch writes its own
	}
	if err != nil || len(records) != want {
		return "", fmt.Errorf("%d records of one decision, %w", len(records), err)
	}
	return field[w].name, nil
}

// A client tool's result is settled once; the same again is a repeat, and the agent
// hears the first.
func TestToolResultOnce(t *testing.T) {
	h := newHarness(t)
	q, err := h.clientCall(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		payload       string
		won, repeated bool
	}{{`{"a": 1}`, true, false}, {`{"a":1}`, false, true}, {`{"a":2}`, false, false}} {
		won, repeated, as, err := h.settle(t.Context(), q, func(q approval.Question) (approval.Decision, error) {
			return approval.OptionIDs{}.Read(t.Context(), q, approval.Answer{Payload: []byte(c.payload)})
		})()
		if err != nil || won != c.won || repeated != c.repeated {
			t.Errorf("%s: won %t, repeated %t, %v", c.payload, won, repeated, err)
		}
		if status, heard := approval.DecisionOf(as); status != "resolved" || string(heard) != `{"content":"{\"a\": 1}"}` && string(heard) != `{"content":"{\"a\":1}"}` {
			t.Errorf("%s: the agent hears %s %s", c.payload, status, heard)
		}
	}
}

// clientCall inserts a call of a client's tool that waits for its result.
func (h *harness) clientCall(ctx context.Context, change func(*store.ToolCall)) (approval.Question, error) {
	session, err := h.session(ctx)
	if err != nil {
		return approval.Question{}, err
	}
	q := approval.Question{Call: store.ToolCall{
		ID: uuid.NewString(), SessionID: session, TurnID: uuid.NewString(), Name: "camera", Kind: store.KindClient, Status: store.ToolWaitingClient,
		CreatedAt: time.UnixMilli(1),
	}}
	if change != nil {
		change(&q.Call)
	}
	_, err = h.Commit(ctx, &store.Batch{Replica: h.replica, Moves: []store.Move{store.InsertToolCall{ToolCall: q.Call}}})
	return q, err
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	h := &harness{Store: st, replica: uuid.NewString()}
	if err := st.Register(t.Context(), store.Replica{ID: h.replica, Name: "n"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestLateToolResult: what a client's tool gave after its call had expired is on record as it was, a failure as a failure,
// and changes nothing. What the system decides too late is not on record: no tool ran for it.
func TestLateToolResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(approval.Question) (approval.Decision, error)
		want   []string // status, result, error of what is on record as late
	}{
		"a result":          {byAda(approval.Answer{Payload: []byte(`{"a":1}`)}), []string{`SUCCEEDED {"a":1} null`}},
		"a failure":         {byAda(approval.Answer{Error: "no camera"}), []string{`FAILED {"error":"no camera"} {"code":"client_tool_failed"}`}},
		"the turn's cancel": {func(approval.Question) (approval.Decision, error) { return approval.CancelledBy(""), nil }, nil},
		"the agent's end":   {func(approval.Question) (approval.Decision, error) { return approval.AskerGone(), nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			q, err := h.clientCall(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			expire := func(q approval.Question) (approval.Decision, error) { return approval.Expired(), nil }
			if won, _, _, err := h.settle(t.Context(), q, expire)(); err != nil || !won {
				t.Fatal(won, err)
			}
			won, repeated, as, err := h.settle(t.Context(), q, c.decide)()
			if err != nil || won || repeated || as.Call.Status != store.ToolTimeout {
				t.Errorf("won %t, repeated %t, the call is %s, %v", won, repeated, as.Call.Status, err)
			}
			all := recordsOf[trace.Result](t, h, q.Call.TurnID, trace.ToolResult)
			if len(all) == 0 || all[0].Late || all[0].Status != store.ToolTimeout {
				t.Fatalf("on record are %+v", all)
			}
			var late []string
			for _, r := range all[1:] {
				late = append(late, fmt.Sprintf("%s %s %s", r.Status, r.Result, r.Error))
				if !r.Late || r.By != "ada" || r.ToolCallID != q.Call.ID {
					t.Errorf("on record is %+v", r)
				}
			}
			if !slices.Equal(late, c.want) {
				t.Errorf("late are %q, want %q", late, c.want)
			}
		})
	}
}

// byAda reads an answer of ada's.
func byAda(a approval.Answer) func(approval.Question) (approval.Decision, error) {
	return func(q approval.Question) (approval.Decision, error) {
		d, err := approval.OptionIDs{}.Read(context.Background(), q, a)
		d.By, d.Via = "ada", approval.ViaREST
		return d, err
	}
}

// TestResultOfApprovedCall: the result of a call that a client was given for an approved one is on record as that one's.
// The prefix alone proves nothing, because an agent makes its own ids: only we give such a call a hash of its arguments.
func TestResultOfApprovedCall(t *testing.T) {
	t.Parallel()
	for hash, approved := range map[string]bool{"sum": true, "": false} {
		h := newHarness(t)
		q, err := h.clientCall(t.Context(), func(c *store.ToolCall) { c.UpstreamID, c.ArgsSHA256 = approval.ApprovedPrefix+"first", hash })
		if err != nil {
			t.Fatal(err)
		}
		if won, _, _, err := h.settle(t.Context(), q, byAda(approval.Answer{Payload: []byte(`"done"`)}))(); err != nil || !won {
			t.Fatal(won, err)
		}
		id, client := q.Call.ID, ""
		if approved {
			id, client = "first", q.Call.ID
		}
		got := recordsOf[trace.Result](t, h, q.Call.TurnID, trace.ToolResult)
		if len(got) != 1 || got[0].ToolCallID != id || got[0].ClientCallID != client || got[0].Status != store.ToolSucceeded {
			t.Errorf("hash %q: on record are %+v, want one of %s by %q", hash, got, id, client)
		}
	}
}

// TestSettledCall: what the row of a call shows of its decision. The result of a tool is the tool's own, so a decision
// leaves none; the agent gets why its call did not run, in the decider's words where there are any.
func TestSettledCall(t *testing.T) {
	t.Parallel()
	because := func(b *bench) approval.Decision {
		d := b.says(sayNo)
		d.Reason = "Too deep a cut."
		return d
	}
	expired := func(b *bench) approval.Decision { return approval.Expired() }
	ours := func(b *bench) { b.toolCall() }
	for name, c := range map[string]struct {
		change        func(*bench)
		decision      func(*bench) approval.Decision
		who           store.Principal
		status        store.ToolCallStatus
		result, error string
	}{
		"approved":                 {ours, saying(sayYes), ada, store.ToolDispatched, "", ""},
		"rejected":                 {ours, saying(sayNo), ada, store.ToolFailed, "", `{"code":"rejected","message":"A person rejected it."}`},
		"because":                  {ours, because, ada, store.ToolFailed, "", `{"code":"rejected","message":"Too deep a cut."}`},
		"expired":                  {ours, expired, store.Principal{}, store.ToolTimeout, "", `{"code":"expired","message":"Nobody decided in time."}`},
		"cancelled":                {ours, func(*bench) approval.Decision { return approval.CancelledBy("") }, store.Principal{}, store.ToolFailed, "", `{"code":"cancelled","message":"It was cancelled."}`},
		"an agent's own, rejected": {nil, because, ada, store.ToolFailed, `{"status":"rejected","optionId":"no","kind":"reject_once"}`, ""},
		"what became of a call": {func(b *bench) { b.toolCall(); b.call.Kind = store.KindQuestion }, saying(sayYes), ada, store.ToolDispatched,
			`{"status":"approved","optionId":"yes","kind":"allow_once"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.change)
			settled, code := b.apply(c.decision(b), c.who)
			call := settled.Question.Call
			if code != "" || call.Status != c.status || string(call.Result) != c.result || string(call.Error) != c.error {
				t.Errorf("%q: %s, result %s, error %s; want %s, %s, %s", code, call.Status, call.Result, call.Error, c.status, c.result, c.error)
			}
		})
	}
}

// TestLoad: a call that no person was asked about has no Approval, and is read all the same. A permission without its
// Approval is none.
func TestLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  store.ToolCallKind
		hash  string
		found bool
		never bool
	}{
		"a server's tool, never asked about": {store.KindServer, "sum", true, true},
		"a client's tool, never asked about": {store.KindClient, "sum", true, false},
		"a client's tool of the agent's":     {store.KindClient, "", true, false},
		"a permission":                       {store.KindQuestion, "", false, false},
		"what became of a call":              {store.KindQuestion, "sum", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			kept, err := h.clientCall(t.Context(), func(call *store.ToolCall) { call.Kind, call.ArgsSHA256 = c.kind, c.hash })
			if err != nil {
				t.Fatal(err)
			}
			q, err := approval.Load(t.Context(), h, store.System(), kept.Call.ID)
			if c.found != (err == nil) || !c.found && !errors.Is(err, store.ErrNotFound) || c.found && (q.NeverAsked() != c.never || q.Approval.ID != "") {
				t.Errorf("%+v, %v", q, err)
			}
		})
	}
}
