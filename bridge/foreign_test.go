package bridge_test

import (
	"errors"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// TestQuestionOfAnotherUser: a user of the same tenant neither lists, finds, decides, delegates nor takes back another
// user's question, as if there were none, until it is delegated to that user. (An approver may: the role is for that.)
func TestQuestionOfAnotherUser(t *testing.T) {
	t.Parallel()
	h := newHarness(t, &scripted{script: permitScript})
	h.chat(ask("t1", "hi"))
	id := h.openQuestion()
	ctx := t.Context()
	other := store.Principal{Tenant: h.who.Tenant, User: "another"}
	third := store.Principal{Tenant: h.who.Tenant, User: "third"}
	foreign := func(who store.Principal) {
		t.Helper()
		if _, err := h.sessions.Approvals().Decide(ctx, who, id, yes(""), approval.ViaREST); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s decides: %v", who.User, err)
		}
		if _, err := h.sessions.Approvals().Delegations.Delegate(ctx, who, id, "third", time.Time{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s delegates: %v", who.User, err)
		}
		if err := h.sessions.Approvals().Revoke(ctx, who, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s revokes: %v", who.User, err)
		}
		if _, err := h.store.Approval(ctx, store.Deciding(who), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s reads: %v", who.User, err)
		}
		open, err := h.store.OpenApprovals(ctx, store.Deciding(who), store.Page{Limit: 10})
		if err != nil || len(open) != 0 {
			t.Errorf("%s has %d open questions, %v", who.User, len(open), err)
		}
	}
	foreign(other)
	foreign(third)
	if h.openQuestion() != id { // still open, and as it was
		t.Fatal("the question is another")
	}
	if _, err := h.sessions.Approvals().Delegations.Delegate(ctx, h.who, id, other.User, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	foreign(third)
	settled, err := h.sessions.Approvals().Decide(ctx, other, id, yes(""), approval.ViaREST)
	if err != nil || !settled.Won || settled.Question.Approval.DecidedBy != other.User {
		t.Fatalf("%+v, %v", settled, err)
	}
	if err := h.sessions.Approvals().Revoke(ctx, third, id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revokes: %v", err)
	}
}
