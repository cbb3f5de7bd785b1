package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/trace"
	"aqueduct/internal/bubbletest"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// serviceEnv is a Service on a SQLite store, with one open permission of the user ada.
type serviceEnv struct {
	*approval.Service
	t     *testing.T
	store store.Store
	id    string
	rings int
}

func newServiceEnv(t *testing.T) *serviceEnv {
	return newServiceEnvIn(t, storetest.SQLite(t))
}

// newServiceEnvIn makes one in a database that is there.
func newServiceEnvIn(t *testing.T, path string) *serviceEnv {
	st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	e := &serviceEnv{t: t, store: st, id: uuid.NewString()}
	logger := slog.New(slog.DiscardHandler)
	e.Service = approval.New(approval.Config{
		Store: st, Replica: "r", Audit: audit.NewLog(st, logger, nil), Ring: func(...string) { e.rings++ }, NewID: uuid.NewString, Logger: logger,
	})
	now := time.Now()
	session := store.Session{ID: uuid.NewString(), Tenant: "acme", User: "ada", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now}
	turn := store.Turn{ID: uuid.NewString(), SessionID: session.ID, AgentID: "a", Status: store.TurnQueued, CreatedAt: now}
	call := store.ToolCall{
		ID: e.id, SessionID: session.ID, TurnID: turn.ID, Name: approval.PermissionTool, Kind: store.KindQuestion, Status: store.ToolWaitingApproval,
		Args: []byte(`{}`), CreatedAt: now, ExpiresAt: now.Add(time.Hour),
	}
	asked := store.Approval{
		ID: e.id, SessionID: session.ID, TurnID: turn.ID, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: "shell", Args: []byte(`{}`),
		Options:   []byte(`[{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]`),
		AskedUser: "ada", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
	}
	if err := st.InTx(t.Context(), func(tx store.Tx) error {
		ctx := t.Context()
		return errors.Join(tx.InsertSession(ctx, session), tx.InsertTurn(ctx, turn), tx.InsertToolCall(ctx, call), tx.InsertApproval(ctx, asked))
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// decide answers for a user of the tenant and returns what became of it, or the code of the refusal.
func (e *serviceEnv) decide(tenant, user, payload, via string) string {
	e.t.Helper()
	settled, err := e.Decide(e.t.Context(), store.Principal{Tenant: tenant, User: user}, e.id, approval.Answer{Payload: []byte(payload)}, via)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "not found"
	case err != nil:
		return codeOf(err)
	case settled.Repeated:
		return "repeated"
	}
	return string(settled.Question.Approval.Status)
}

const (
	sayYes = `{"optionId":"yes"}`
	sayNo  = `{"optionId":"no"}`
)

// TestServiceDecide tries who decides what, after what has happened to the Question before.
func TestServiceDecide(t *testing.T) {
	t.Parallel()
	nothing := func(*serviceEnv) {}
	for name, c := range map[string]struct {
		before                     func(*serviceEnv)
		tenant, user, payload, via string
		want                       string
		status                     store.ApprovalStatus
	}{
		"the user approves":   {nothing, "acme", "ada", sayYes, approval.ViaREST, "APPROVED", store.ApprovalApproved},
		"the user rejects":    {nothing, "acme", "ada", sayNo, approval.ViaREST, "REJECTED", store.ApprovalRejected},
		"unknown option":      {nothing, "acme", "ada", `{"optionId":"maybe"}`, approval.ViaREST, approval.UnknownOption, store.ApprovalPending},
		"edits what may not":  {nothing, "acme", "ada", `{"optionId":"yes","editedArgs":{"a":1}}`, approval.ViaREST, approval.EditRefused, store.ApprovalPending},
		"another user":        {nothing, "acme", "eve", sayYes, approval.ViaREST, "not found", store.ApprovalPending},
		"another tenant":      {nothing, "evil", "ada", sayYes, approval.ViaREST, "not found", store.ApprovalPending},
		"the same once more":  {func(e *serviceEnv) { e.decide("acme", "ada", sayYes, approval.ViaREST) }, "acme", "ada", sayYes, "link", "repeated", store.ApprovalApproved},
		"otherwise, too late": {func(e *serviceEnv) { e.decide("acme", "ada", sayYes, approval.ViaREST) }, "acme", "ada", sayNo, "link", approval.AlreadyDecided, store.ApprovalApproved},
		"after its expiry":    {func(e *serviceEnv) { e.Expire(e.t.Context(), e.id) }, "acme", "ada", sayYes, approval.ViaREST, approval.AlreadyDecided, store.ApprovalExpired},
		"after its withdrawal": {func(e *serviceEnv) { _ = e.Withdraw(e.t.Context(), e.id) }, "acme", "ada", sayYes, approval.ViaREST,
			approval.AlreadyDecided, store.ApprovalCancelled},
		"handed over to it": {func(e *serviceEnv) {
			_, _ = e.Delegations.Delegate(e.t.Context(), store.Principal{Tenant: "acme", User: "ada"}, e.id, "bob", time.Time{})
		}, "acme", "bob", sayYes, approval.ViaREST, "APPROVED", store.ApprovalApproved},
		"delegated to it": {func(e *serviceEnv) {
			_, _ = e.Delegations.Give(e.t.Context(), store.Principal{Tenant: "acme", User: "ada"}, approval.DelegationRequest{To: "bob"})
		}, "acme", "bob", sayNo, approval.ViaREST, "REJECTED", store.ApprovalRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newServiceEnv(t)
			c.before(e)
			if got := e.decide(c.tenant, c.user, c.payload, c.via); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			a, err := e.store.Approval(t.Context(), store.System(), e.id)
			if err != nil || a.Status != c.status {
				t.Errorf("the row is %s, %v; want %s", a.Status, err, c.status)
			}
			if (e.rings > 0) != (c.status != store.ApprovalPending) {
				t.Errorf("%d rings", e.rings)
			}
		})
	}
}

// TestServiceRevoke tries that an approval is taken back once, by its user, and only while nothing has acted on it.
func TestServiceRevoke(t *testing.T) {
	t.Parallel()
	e := newServiceEnv(t)
	ada, eve := store.Principal{Tenant: "acme", User: "ada"}, store.Principal{Tenant: "acme", User: "eve"}
	if err := e.Revoke(t.Context(), ada, e.id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of an open question: %v", err)
	}
	e.decide("acme", "ada", sayYes, approval.ViaREST)
	e.rings = 0
	if err := e.Revoke(t.Context(), eve, e.id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("by another user: %v", err)
	}
	if e.rings != 0 {
		t.Errorf("%d rings of what was refused", e.rings)
	}
	if err := e.Revoke(t.Context(), ada, e.id); err != nil {
		t.Fatal(err)
	}
	if err := e.Revoke(t.Context(), ada, e.id); codeOf(err) != approval.AlreadyDecided {
		t.Errorf("twice: %v", err)
	}
	if e.rings != 1 { // the Session's owner has to pass the cancel on
		t.Errorf("%d rings", e.rings)
	}
	q, err := approval.Load(t.Context(), e.store, store.System(), e.id)
	if err != nil || q.Approval.Status != store.ApprovalCancelled || q.Call.Status != store.ToolFailed || q.Approval.DecidedVia != approval.ViaRevoke {
		t.Errorf("%+v, %v", q, err)
	}
	var statuses []string
	for _, r := range recordsOf[trace.Decided](t, e.store, q.Call.TurnID, trace.ApprovalDecision) {
		statuses = append(statuses, r.Status+" "+r.By+" "+r.Via)
	}
	if want := []string{"APPROVED ada rest", "CANCELLED ada revoke"}; !slices.Equal(statuses, want) {
		t.Errorf("on record are %q, want %q", statuses, want)
	}
}

// recordsOf are the payloads of a Turn's Records of one type, oldest first.
func recordsOf[T any](t *testing.T, r store.Reader, turnID, ofType string) (all []T) {
	t.Helper()
	records, err := r.RecordsOfTurn(t.Context(), store.System(), turnID, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if record.Type != ofType {
			continue
		}
		var payload T
		if err := json.Unmarshal(record.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		all = append(all, payload)
	}
	return all
}

// TestDecideOnce: a decision starts the call that it is about and wakes the sender of notices, once; the same again, and
// one that came too late, do neither.
func TestDecideOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bench)
		starts int
	}{
		"a permission":   {nil, 0},
		"a call of ours": {func(b *bench) { b.toolCall() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.change, nil)
			for i, try := range []struct{ payload, code string }{{sayYes, ""}, {sayYes, ""}, {sayNo, approval.AlreadyDecided}} {
				_, err := d.service.Decide(t.Context(), ada, d.call.ID, approval.Answer{Payload: []byte(try.payload)}, approval.ViaREST)
				if codeOf(err) != try.code {
					t.Errorf("answer %d: %v, want %q", i, err, try.code)
				}
				if d.calls.decided != c.starts || d.kicks != 1 || d.notices != 1 || d.rings != 1 {
					t.Errorf("after answer %d: %d starts, the sender was woken %d times for %d notices, %d rings", i, d.calls.decided, d.kicks, d.notices, d.rings)
				}
			}
			if d.service.AfterCommit(); d.kicks != 1 { // a commit that settled none
				t.Errorf("the sender was woken %d times", d.kicks)
			}
		})
	}
}

// TestDecideWithoutTools: a Service without a tool proxy settles a call of ours all the same.
func TestDecideWithoutTools(t *testing.T) {
	t.Parallel()
	b, s := newStanding(t, func(b *bench) { b.toolCall() })
	settled, err := s.Decide(t.Context(), ada, b.call.ID, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST)
	if err != nil || !settled.Won || settled.Question.Call.Status != store.ToolDispatched {
		t.Errorf("%+v, %v", settled, err)
	}
}

// awayAtFirst is a store whose first transactions fail.
type awayAtFirst struct {
	store.Store
	failures int64
	tries    atomic.Int64
}

func (s *awayAtFirst) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if s.tries.Add(1) <= s.failures {
		return errAway
	}
	return s.Store.InTx(ctx, fn)
}

// TestExpireAgain: a question whose deadline comes while the database is away expires when that is back. One that has
// expired, and one that does not exist, are not tried again.
func TestExpireAgain(t *testing.T) {
	path := storetest.SQLite(t)
	bubbletest.Test(t, func(t *testing.T) {
		e := newServiceEnvIn(t, path)
		away := &awayAtFirst{Store: e.store, failures: 3}
		var log bytes.Buffer
		s := approval.New(approval.Config{
			Store: away, Replica: "r", Ring: func(...string) {}, NewID: uuid.NewString, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() { s.RunDeadlines(ctx) })
		begun := time.Now()
		s.Deadlines.Arm(e.id, time.Minute)
		s.Deadlines.Arm("never asked", 2*time.Minute)
		time.Sleep(time.Hour)
		cancel()
		ran.Wait()
		a, err := e.store.Approval(t.Context(), store.System(), e.id)
		if late := a.DecidedAt.Sub(begun); err != nil || a.Status != store.ApprovalExpired || late < time.Minute || late > time.Minute+10*time.Second {
			t.Errorf("%s after %s, %v", a.Status, late, err)
		}
		if n := strings.Count(log.String(), "not expired"); n != 3 {
			t.Errorf("%d failures in the log:\n%s", n, &log)
		}
		if n := away.tries.Load(); n != 5 { // the failures, the expiry, and the question that does not exist
			t.Errorf("%d tries", n)
		}
	})
}

// TestWriterDecidesNothing: a share to write lets its user return the result of a client's tool, and not approve the call
// that a person has to approve first, which is a call of a client's tool as well.
func TestWriterDecidesNothing(t *testing.T) {
	t.Parallel()
	e := newServiceEnv(t)
	asked, err := e.store.Approval(t.Context(), store.System(), e.id)
	if err != nil {
		t.Fatal(err)
	}
	add := func(status store.ToolCallStatus, hash string) string {
		id := uuid.NewString()
		call := store.ToolCall{
			ID: id, SessionID: asked.SessionID, TurnID: asked.TurnID, Name: "pick", Kind: store.KindClient, Status: status, Args: []byte(`{}`), ArgsSHA256: hash,
			CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
		}
		a := asked
		a.ID, a.Tool, a.ArgsSHA256 = id, "pick", hash
		if err := e.store.InTx(t.Context(), func(tx store.Tx) error {
			if err := tx.InsertToolCall(t.Context(), call); err != nil || hash == "" {
				return err
			}
			return tx.InsertApproval(t.Context(), a)
		}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	if err := e.store.InTx(t.Context(), func(tx store.Tx) error {
		return tx.PutShare(t.Context(), store.Share{ID: uuid.NewString(), SessionID: asked.SessionID, Tenant: "acme", To: "user:bob", Write: true, CreatedBy: "ada", CreatedAt: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	toApprove := add(store.ToolWaitingApproval, "ab")
	settled, err := e.ToolResult(t.Context(), bob, toApprove, approval.Answer{Payload: []byte(`{"approved":true}`)})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("bob approves: %+v, %v", settled.Question.Approval.Status, err)
	}
	if a, err := e.store.Approval(t.Context(), store.System(), toApprove); err != nil || a.Status != store.ApprovalPending {
		t.Errorf("the approval is %s, %v", a.Status, err)
	}
	if settled, err = e.ToolResult(t.Context(), bob, add(store.ToolWaitingClient, ""), approval.Answer{Payload: []byte(`{"picked":7}`)}); err != nil || !settled.Won {
		t.Errorf("bob returns a result: %+v, %v", settled, err)
	}
}
