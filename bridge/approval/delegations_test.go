package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

var bob = store.Principal{Tenant: "acme", User: "bob"}

// desk is a Service over the rows of a bench: it counts its rings and notices, and bob follows what he may decide.
type desk struct {
	*bench
	service *approval.Service
	bobs    *approval.Follower
	kicks   int
	rings   int
}

// newDesk makes one whose Service gives the ids that newID makes; nil is unique ones. The Feed does not run, so only what
// the Service itself rings has bob's Follower look.
func newDesk(t *testing.T, change func(*bench), newID func() string) *desk {
	t.Helper()
	d := &desk{bench: newBench(t, change)}
	if newID == nil {
		newID = uuid.NewString
	}
	logger := slog.New(slog.DiscardHandler)
	d.service = approval.New(approval.Config{
		Store: d.store, Replica: "here", Audit: audit.NewLog(d.store, logger, nil), Ring: func(...string) { d.rings++ }, NewID: newID, Logger: logger,
		Calls: d.calls, Notices: approval.Notices{Rows: d.Notices.Rows, Kick: func() { d.kicks++ }},
	})
	d.bobs = d.service.Feed.Follow(store.Deciding(bob), 0)
	t.Cleanup(d.bobs.Close)
	return d
}

// shown is what bob is shown next, as kinds and ids. It fails where nothing rang for him.
func (d *desk) shown() (steps []string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Second)
	defer cancel()
	next, err := d.bobs.Next(ctx)
	if err != nil {
		d.t.Fatal("bob is shown nothing: ", err)
	}
	for _, s := range next {
		steps = append(steps, [...]string{"opened ", "settled ", "gone ", "synced"}[s.Kind]+s.Change.Approval.ID+s.ID)
	}
	return steps
}

// is checks what bob is shown next, and the audit so far.
func (d *desk) is(shown string, audited ...string) {
	d.t.Helper()
	if got := d.shown(); !slices.Equal(got, []string{shown}) {
		d.t.Errorf("bob is shown %q, want %q", got, shown)
	}
	d.audited(audited...)
}

func (d *desk) audited(want ...string) {
	d.t.Helper()
	if got := d.audits(); !slices.Equal(got, want) {
		d.t.Errorf("audited %q, want %q", got, want)
	}
}

// entry is the payload of the newest audit entry.
func (d *desk) entry() (payload map[string]any) {
	d.t.Helper()
	entries, err := d.store.Audit(d.t.Context(), store.System(), 0, 100)
	if err != nil || len(entries) == 0 {
		d.t.Fatal(entries, err)
	}
	if err := json.Unmarshal(entries[len(entries)-1].Payload, &payload); err != nil {
		d.t.Fatal(err)
	}
	return payload
}

// TestStandingDelegation: what a delegation opens to its delegate is shown at once, and what its end closes is gone at
// once. Each is in the audit, and an attempt to end it that was refused is not.
func TestStandingDelegation(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil)
	d.is("synced")
	row, err := d.service.Delegations.Give(t.Context(), ada, approval.DelegationRequest{To: "bob", Tool: "shell", Note: "on leave"})
	if err != nil {
		t.Fatal(err)
	}
	d.is("opened "+d.call.ID, audit.DelegationCreated)
	if e := d.entry(); e["to"] != "bob" || e["tool"] != "shell" || e["tenantwide"] != nil || e["expires_at"] == nil {
		t.Errorf("the entry is %v", e)
	}
	kept, err := d.store.Delegation(t.Context(), store.System(), row.ID)
	if err != nil || kept.User != "ada" || kept.To != "bob" || kept.Note != "on leave" || !kept.ExpiresAt.Equal(row.ExpiresAt) {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if err := d.service.Delegations.Revoke(t.Context(), ada, row.ID); err != nil {
		t.Fatal(err)
	}
	d.is("gone "+d.call.ID, audit.DelegationCreated, audit.DelegationRevoked)
	if err := d.service.Delegations.Revoke(t.Context(), ada, row.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	d.audited(audit.DelegationCreated, audit.DelegationRevoked)
}

// TestDelegationNotKept: a delegation that the store does not take is an error, changes nothing and is not in the audit.
func TestDelegationNotKept(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	d := newDesk(t, nil, func() string { return id })
	if _, err := d.service.Delegations.Give(t.Context(), ada, approval.DelegationRequest{To: "cyd"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.service.Delegations.Give(t.Context(), ada, approval.DelegationRequest{To: "bob"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same id twice: %v", err)
	}
	d.audited(audit.DelegationCreated)
	if kept, err := d.store.Delegations(t.Context(), store.System(), store.Page{}); err != nil || len(kept) != 1 || kept[0].To != "cyd" {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if _, err := d.service.Decide(t.Context(), bob, d.call.ID, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("bob decides: %v", err)
	}
}

// TestHandOver: a question that is handed over is shown to its new holder at once, who gets one notice; taking it back
// notifies no person. Both are in the audit, with the end that the hand-over has.
func TestHandOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil)
	d.is("synced")
	until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	a, err := d.service.Delegations.Delegate(t.Context(), ada, d.call.ID, "bob", until)
	if err != nil || a.ID != d.call.ID || a.DelegatedTo != "bob" || a.DelegatedBy != "ada" || !a.DelegatedUntil.Equal(until) {
		t.Fatalf("handed over as %+v, %v", a, err)
	}
	d.is("opened "+d.call.ID, audit.ApprovalDelegated)
	if e := d.entry(); e["to"] != "bob" || e["until"] != until.UTC().Format(time.RFC3339Nano) {
		t.Errorf("the entry is %v", e)
	}
	if d.notices != 1 || d.kicks != 1 {
		t.Errorf("%d notices, and the sender was woken %d times", d.notices, d.kicks)
	}
	if _, err := d.service.Delegations.Delegate(t.Context(), bob, d.call.ID, "cyd", time.Time{}); fault.CodeOf(err) != approval.NotApprover {
		t.Errorf("bob passes it on: %v", err)
	}
	if a, err = d.service.Delegations.Delegate(t.Context(), ada, d.call.ID, "", time.Time{}); err != nil || a.DelegatedTo != "" {
		t.Fatalf("taken back as %+v, %v", a, err)
	}
	d.is("gone "+d.call.ID, audit.ApprovalDelegated, audit.ApprovalDelegated)
	if e := d.entry(); e["to"] != "" || e["until"] != nil {
		t.Errorf("the entry is %v", e)
	}
	if d.notices != 1 {
		t.Errorf("%d notices after it was taken back", d.notices)
	}
}

// TestHandOverTooLate: a question that is decided stays decided: it is handed to no other person, and neither notice nor
// audit shows that it was.
func TestHandOverTooLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil)
	if _, err := d.service.Decide(t.Context(), ada, d.call.ID, approval.Answer{Payload: []byte(sayNo)}, approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	notices, kicks := d.notices, d.kicks
	if _, err := d.service.Delegations.Delegate(t.Context(), ada, d.call.ID, "bob", time.Time{}); fault.CodeOf(err) != approval.AlreadyDecided {
		t.Errorf("handed over after its decision: %v", err)
	}
	d.audited(audit.ApprovalDecided)
	if d.notices != notices || d.kicks != kicks {
		t.Errorf("%d notices, and the sender was woken %d times", d.notices-notices, d.kicks-kicks)
	}
	if a, err := d.store.Approval(t.Context(), store.System(), d.call.ID); err != nil || a.DelegatedTo != "" || a.Status != store.ApprovalRejected {
		t.Errorf("kept %+v, %v", a, err)
	}
}

// TestDelegateOfAnApprover: where only certain approvers may approve, a delegate of one of them may as well, with the
// roles that the giver had; a delegate of any other person may reject at most.
func TestDelegateOfAnApprover(t *testing.T) {
	t.Parallel()
	olga := store.Principal{Tenant: "acme", User: "olga", Roles: []string{"ops"}}
	for name, c := range map[string]struct {
		change  func(*bench)
		giver   store.Principal
		payload string
		want    string
	}{
		"of one that is named":                 {nil, olga, sayYes, ""},
		"of the thread's user":                 {nil, ada, sayYes, approval.NotApprover},
		"of the thread's user, rejecting":      {nil, ada, sayNo, ""},
		"of one that prompted, with four eyes": {func(b *bench) { b.asked.FourEyes, b.asked.AskedUser = true, "olga" }, olga, sayYes, approval.NotApprover},
		"that prompted, with four eyes":        {func(b *bench) { b.asked.FourEyes, b.asked.AskedUser = true, "bob" }, olga, sayYes, approval.FourEyes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(b *bench) {
				b.asked.Approvers = []byte(`["role:ops"]`)
				if c.change != nil {
					c.change(b)
				}
			}, nil)
			if _, err := d.service.Delegations.Give(t.Context(), c.giver, approval.DelegationRequest{To: "bob"}); err != nil {
				t.Fatal(err)
			}
			_, err := d.service.Decide(t.Context(), bob, d.call.ID, approval.Answer{Payload: []byte(c.payload)}, approval.ViaREST)
			if code := fault.CodeOf(err); code != c.want || err != nil && code == "" {
				t.Errorf("bob decides: %v, want %q", err, c.want)
			}
			a, err := d.store.Approval(t.Context(), store.System(), d.call.ID)
			if decided := a.Status != store.ApprovalPending; err != nil || decided != (c.want == "") || decided && a.DecidedBy != "bob" {
				t.Errorf("the row is %s by %q, %v", a.Status, a.DecidedBy, err)
			}
		})
	}
}
