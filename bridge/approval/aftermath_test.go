package approval_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// What a settlement leaves behind, beside the row itself: audit, notices, records, rings.

// counted are the calls of the tool proxy and of the sender of notices.
type counted struct {
	calls
	decided, notices, kicks int
}

func (c *counted) Decided(approval.Question) { c.decided++ }

// withCounts is a serviceEnv whose Questions are noticed and whose tool calls are ours.
func withCounts(t *testing.T) (*serviceEnv, *counted) {
	t.Helper()
	e, c := newServiceEnv(t), &counted{}
	c.revoked = true
	e.Service = approval.New(approval.Config{
		Store: e.store, Replica: "r", Ring: func(...string) { e.rings++ }, NewID: uuid.NewString, Logger: slog.New(slog.DiscardHandler), Calls: c,
		Notices: approval.Notices{
			Rows: func(q approval.Question, s store.Session) []store.OutboxItem {
				c.notices++
				return []store.OutboxItem{{ID: uuid.NewString(), SessionID: s.ID, CreatedAt: time.Now()}}
			},
			Kick: func() { c.kicks++ },
		},
	})
	return e, c
}

// audited are the actions of the audit with their details, oldest first.
func (e *serviceEnv) audited() (list []string) {
	e.t.Helper()
	entries, err := e.store.Audit(e.t.Context(), store.System(), 0, 100)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, entry := range entries {
		list = append(list, fmt.Sprintf("%s %s", entry.Action, entry.Payload))
	}
	return list
}

func (e *serviceEnv) fatal(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// add inserts a call beside the open question, and its Approval where it has one.
func (e *serviceEnv) add(call store.ToolCall, asked bool) string {
	e.t.Helper()
	like, err := e.store.Approval(e.t.Context(), store.System(), e.id)
	e.fatal(err)
	call.ID, call.SessionID, call.TurnID = uuid.NewString(), like.SessionID, like.TurnID
	call.Args, call.CreatedAt, call.ExpiresAt = []byte(`{}`), time.Now(), time.Now().Add(time.Hour)
	like = store.Approval{
		ID: call.ID, SessionID: like.SessionID, TurnID: like.TurnID, Kind: like.Kind, Status: store.ApprovalPending, Tool: call.Name, Args: call.Args,
		ArgsSHA256: call.ArgsSHA256, Options: like.Options, AskedUser: like.AskedUser, CreatedAt: call.CreatedAt, ExpiresAt: call.ExpiresAt,
	}
	e.fatal(e.store.InTx(e.t.Context(), func(tx store.Tx) error {
		if err := tx.InsertToolCall(e.t.Context(), call); err != nil || !asked {
			return err
		}
		return tx.InsertApproval(e.t.Context(), like)
	}))
	return call.ID
}

// TestPassedOn: who gets an open question is noticed and on record; taking it back is on record alone, and what is decided
// is not passed on.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	e, c := withCounts(t)
	until := time.Now().Add(time.Hour)
	a, err := e.Delegations.Delegate(t.Context(), ada, e.id, "bob", until)
	if err != nil || a.DelegatedTo != "bob" || a.ID != e.id {
		t.Fatalf("%+v %v", a, err)
	}
	if c.notices != 1 || c.kicks != 1 {
		t.Errorf("%d notices, %d kicks", c.notices, c.kicks)
	}
	if _, err := e.Delegations.Delegate(t.Context(), ada, e.id, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if c.notices != 1 {
		t.Errorf("taken back with %d notices", c.notices)
	}
	if list := e.audited(); len(list) != 2 || !strings.Contains(list[0], `"to":"bob"`) || !strings.Contains(list[0], `"until"`) ||
		!strings.Contains(list[1], `"to":""`) || strings.Contains(list[1], "until") {
		t.Errorf("the audit has %q", list)
	}
	e.decide("acme", "ada", sayYes, approval.ViaREST)
	if _, err := e.Delegations.Delegate(t.Context(), ada, e.id, "bob", until); codeOf(err) != approval.AlreadyDecided {
		t.Errorf("passed on when it was decided: %v", err)
	}
}

// TestStandingDelegationIsOnRecord: one that is given, and its end; one that cannot be is not kept.
func TestStandingDelegationIsOnRecord(t *testing.T) {
	t.Parallel()
	e, _ := withCounts(t)
	d, err := e.Delegations.Give(t.Context(), ada, approval.DelegationRequest{To: "bob", Tool: "shell"})
	e.fatal(err)
	e.fatal(e.Delegations.Revoke(t.Context(), ada, d.ID))
	if err := e.Delegations.Revoke(t.Context(), ada, d.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	for what, req := range map[string]approval.DelegationRequest{
		"to oneself": {To: "ada"}, "that is over": {To: "bob", Until: time.Now().Add(-time.Second)}, "for ever": {To: "bob", Until: time.Now().Add(400 * 24 * time.Hour)},
	} {
		if _, err := e.Delegations.Give(t.Context(), ada, req); codeOf(err) != approval.InvalidAnswer {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list := e.audited(); len(list) != 2 || !strings.HasPrefix(list[0], `delegation.created {"to":"bob","tool":"shell"`) || !strings.HasPrefix(list[1], "delegation.revoked") {
		t.Errorf("the audit has %q", list)
	}
}

// TestAfterCommit: the tool proxy is asked to look for its own calls only, and the sender of notices once.
func TestAfterCommit(t *testing.T) {
	t.Parallel()
	e, c := withCounts(t)
	e.AfterCommit()
	if c.kicks != 0 {
		t.Error("nothing was settled, and the sender of notices is woken")
	}
	e.decide("acme", "ada", sayYes, approval.ViaREST)
	if c.decided != 0 || c.kicks != 1 {
		t.Errorf("of an agent's permission: %d calls decided, %d kicks", c.decided, c.kicks)
	}
	id := e.add(store.ToolCall{Name: "cut", Kind: store.KindServer, Status: store.ToolWaitingApproval, ArgsSHA256: "ab"}, true)
	if _, err := e.Decide(t.Context(), ada, id, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	if c.decided != 1 || c.kicks != 2 {
		t.Errorf("of a tool call: %d calls decided, %d kicks", c.decided, c.kicks)
	}
	call, err := e.store.ToolCall(t.Context(), store.System(), id)
	if err != nil || call.Result != nil || call.Status != store.ToolDispatched {
		t.Errorf("a call that has to run has the result %s %v", call.Result, err)
	}
}

// TestRevokedIsOnRecord: an approval that is taken back is recorded as a decision, and the owner is woken; a refusal wakes
// nobody.
func TestRevokedIsOnRecord(t *testing.T) {
	t.Parallel()
	e, _ := withCounts(t)
	id := e.add(store.ToolCall{Name: "cut", Kind: store.KindServer, Status: store.ToolWaitingApproval, ArgsSHA256: "ab"}, true)
	if _, err := e.Decide(t.Context(), ada, id, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	rings := e.rings
	e.fatal(e.Revoke(t.Context(), ada, id))
	if e.rings != rings+1 {
		t.Errorf("%d rings for one revocation", e.rings-rings)
	}
	if err := e.Revoke(t.Context(), ada, id); err == nil || e.rings != rings+1 {
		t.Errorf("revoked twice: %v, %d rings", err, e.rings-rings)
	}
	if got := e.recorded(id, "approval_decision"); len(got) != 2 || !strings.Contains(got[1], `"revoke"`) || !strings.Contains(got[1], "CANCELLED") {
		t.Errorf("on record is %q", got)
	}
}

// recorded are the payloads of a call's records of one type, oldest first.
func (e *serviceEnv) recorded(id, kind string) (list []string) {
	e.t.Helper()
	call, err := e.store.ToolCall(e.t.Context(), store.System(), id)
	e.fatal(err)
	rows, err := e.store.RecordsOfTurn(e.t.Context(), store.System(), call.TurnID, store.Page{Limit: 100})
	e.fatal(err)
	for _, r := range rows {
		if r.Type == kind && strings.Contains(string(r.Payload), id) {
			list = append(list, string(r.Payload))
		}
	}
	return list
}

// TestWhyACallDidNotRun: the agent gets the reason that a person gave, else words of its own for each end.
func TestWhyACallDidNotRun(t *testing.T) {
	t.Parallel()
	e, _ := withCounts(t)
	for reason, want := range map[string]string{"too dear": "too dear", "": "A person rejected it."} {
		id := e.add(store.ToolCall{Name: "cut", Kind: store.KindServer, Status: store.ToolWaitingApproval, ArgsSHA256: "ab"}, true)
		if _, err := e.Decide(t.Context(), ada, id, approval.Answer{Payload: []byte(sayNo), Reason: reason}, approval.ViaREST); err != nil {
			t.Fatal(err)
		}
		call, err := e.store.ToolCall(t.Context(), store.System(), id)
		if err != nil || !strings.Contains(string(call.Error), want) || !strings.Contains(string(call.Error), call.ErrorCode) || call.Status != store.ToolFailed {
			t.Errorf("%q: %s %s %v", reason, call.Status, call.Error, err)
		}
	}
}

// TestLateResult: what a client's tool gave after its call had ended is on record as it was, and changes nothing.
func TestLateResult(t *testing.T) {
	t.Parallel()
	e, _ := withCounts(t)
	for _, c := range []struct {
		answer approval.Answer
		want   string
	}{
		{approval.Answer{Payload: []byte(`{"picked":7}`)}, `"status":"SUCCEEDED"`},
		{approval.Answer{Payload: []byte(`{"error":"broken"}`), Error: "broken"}, `"status":"FAILED"`},
	} {
		id := e.add(store.ToolCall{Name: "pick", Kind: store.KindClient, Status: store.ToolWaitingClient}, false)
		e.Expire(t.Context(), id)
		_, _ = e.ToolResult(t.Context(), ada, id, c.answer)
		got := e.recorded(id, "tool_result")
		if len(got) != 2 || !strings.Contains(got[1], `"late":true`) || !strings.Contains(got[1], c.want) {
			t.Errorf("on record is %q, want %s", got, c.want)
		}
		e.Expire(t.Context(), id)
		if again := e.recorded(id, "tool_result"); len(again) != 2 {
			t.Errorf("an expiry that came late is on record: %q", again)
		}
	}
}

// TestWithoutApproval: a client's call that no person was asked about is a Question without one; a permission without one
// is none.
func TestWithoutApproval(t *testing.T) {
	t.Parallel()
	e, _ := withCounts(t)
	of := func(call store.ToolCall) error {
		q, err := approval.Load(t.Context(), e.store, store.System(), e.add(call, false))
		if err == nil && q.Approval.ID != "" {
			t.Errorf("it has an approval: %+v", q.Approval)
		}
		return err
	}
	if err := of(store.ToolCall{Name: "pick", Kind: store.KindClient, Status: store.ToolWaitingClient, ArgsSHA256: "ab"}); err != nil {
		t.Errorf("a client's call: %v", err)
	}
	if err := of(store.ToolCall{Name: "cut", Kind: store.KindServer, Status: store.ToolRunning, ArgsSHA256: "ab"}); err != nil {
		t.Errorf("a call of ours: %v", err)
	}
	if err := of(store.ToolCall{Name: approval.PermissionTool, Kind: store.KindQuestion, Status: store.ToolWaitingApproval}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a permission: %v", err)
	}
}

// TestCancelledBy: a cancel of a person's is that person's decision, any other nobody's.
func TestCancelledBy(t *testing.T) {
	t.Parallel()
	if d := approval.CancelledBy("ada"); d.By != "ada" || d.CancelledBy != "ada" {
		t.Errorf("%+v", d)
	}
	if d := approval.CancelledBy(""); d.By == "" || d.CancelledBy != "" {
		t.Errorf("%+v", d)
	}
}
