package storetest

import (
	"slices"
	"time"

	"aqueduct/store"
)

func testApprovals(w *world) {
	s, ctx, all := w.session(alice()), w.ctx, store.System()
	whole := store.Approval{ID: w.id(), SessionID: s.ID, TurnID: "t0", Kind: store.ApprovalInput,
		Status: store.ApprovalApproved, Tool: "prefs", Title: "Ask", Args: []byte(`{"b":1,"a":2}`), ArgsSHA256: "ab",
		Options: []byte(`[{"id":"1"}]`), ResponseSchema: []byte(`{"type":"object"}`), Risk: "low", CreatedAt: at(1),
		AskedUser: "alice", Approvers: []byte(`["role:approver"]`), FourEyes: true, MayEdit: true, DelegatedTo: "bob",
		DelegatedBy: "alice", DelegatedUntil: at(4), ExpiresAt: at(2), DecidedAt: at(3), DecidedBy: "alice", DecidedVia: "chat",
		Decision: []byte(`{"x":1}`), EditedArgs: []byte(`{"b":2}`), GrantID: "g", Reason: "r"}
	w.move(store.InsertApproval{Approval: whole})
	same(w, got[store.Approval](w)(w.s.Approval(ctx, all, whole.ID)), whole)
	w.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertApproval{Approval: whole}}})

	want := []string{whole.ID}
	for _, status := range store.AllApprovalStatuses() {
		want = append(want, w.approval(s.ID, "t1", status).ID)
	}
	other := w.session(alice())
	want = append(want, w.approval(other.ID, "t2", store.ApprovalPending).ID)
	slices.Reverse(want)
	page := func(f store.ApprovalFilter, p store.Page) []string {
		w.Helper()
		rows, err := w.s.Approvals(ctx, store.As(alice()), f, p)
		w.ok(err)
		return idsOf(rows, func(a store.Approval) string { return a.ID })
	}
	none := store.ApprovalFilter{}
	same(w, page(none, store.Page{}), want)
	same(w, page(none, store.Page{Limit: 2}), want[:2])
	same(w, page(none, store.Page{Limit: 2, After: want[1]}), want[2:4])
	same(w, page(none, store.Page{Limit: 2, Before: want[4]}), want[2:4])
	same(w, len(page(store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})), 2)
	same(w, page(store.ApprovalFilter{SessionID: other.ID}, store.Page{}), want[:1])
	same(w, page(store.ApprovalFilter{TurnID: "t0"}, store.Page{}), want[6:])
	same(w, len(page(store.ApprovalFilter{Status: store.ApprovalPending, SessionID: s.ID, TurnID: "t1"}, store.Page{})), 1)
}

func testApprovalMoves(w *world) {
	s := w.session(alice())
	for _, is := range store.AllApprovalStatuses() {
		for _, to := range append(store.AllApprovalStatuses(), "") {
			a := w.approval(s.ID, "t", is)
			move := store.ApprovalMove{ID: a.ID, To: to, DecidedAt: at(7), DecidedBy: "bob", DecidedVia: "rest",
				Decision: []byte(`{"option":"x"}`), EditedArgs: []byte(`{"a":3}`), GrantID: "g1", Reason: "because"}
			if to == store.ApprovalPending || to == "" {
				w.refuse(store.ErrData, store.Batch{Moves: []store.Move{move}})
				continue
			}
			w.settle(a, move)
		}
	}
}

// settle makes the move, as a Batch and as a request in turn, and checks the row.
func (w *world) settle(a store.Approval, m store.ApprovalMove) {
	w.Helper()
	made := false
	if m.To == store.ApprovalApproved {
		w.tx(func(tx store.Tx) (err error) { made, err = tx.MoveApproval(w.ctx, m); return err })
	} else {
		made = len(w.move(m)) == 0
	}
	if made != (a.Status == store.ApprovalPending) {
		w.Fatalf("%s→%s made %t", a.Status, m.To, made)
	}
	if made {
		a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia = m.To, m.DecidedAt, m.DecidedBy, m.DecidedVia
		a.Decision, a.Reason, a.EditedArgs, a.GrantID = m.Decision, m.Reason, m.EditedArgs, m.GrantID
	}
	same(w, got[store.Approval](w)(w.s.Approval(w.ctx, store.System(), a.ID)), a)
}

func approvalID(a store.Approval) string { return a.ID }

func testApprovalFilter(w *world) {
	s := w.session(alice())
	insert := func(kind store.ApprovalKind, tool string) string {
		a := store.Approval{ID: w.id(), SessionID: s.ID, TurnID: "t", Kind: kind, Status: store.ApprovalPending, Tool: tool,
			CreatedAt: at(1)}
		w.tx(func(tx store.Tx) error { return tx.InsertApproval(w.ctx, a) })
		return a.ID
	}
	buy, sell, ask := insert(store.ApprovalPermission, "buy"), insert(store.ApprovalPermission, "sell"), insert(store.ApprovalInput, "buy")
	for _, c := range []struct {
		f    store.ApprovalFilter
		want []string
	}{
		{store.ApprovalFilter{Kind: store.ApprovalPermission}, []string{sell, buy}},
		{store.ApprovalFilter{Tool: "buy"}, []string{ask, buy}},
		{store.ApprovalFilter{Tool: "buy", Kind: store.ApprovalInput, SessionID: s.ID, Status: store.ApprovalPending}, []string{ask}},
		{store.ApprovalFilter{Tool: "steal"}, nil},
	} {
		same(w, idsOf(got[[]store.Approval](w)(w.s.Approvals(w.ctx, store.As(alice()), c.f, store.Page{})), approvalID), c.want)
	}
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error {
		return tx.InsertApproval(w.ctx, store.Approval{ID: buy, SessionID: s.ID, Kind: store.ApprovalInput, Status: store.ApprovalPending})
	}), store.ErrConflict)
}

// testApprovalDelegation: who was handed an Approval sees it, until then, and nothing else
// of its Session; the same name in another tenant sees nothing.
func testApprovalDelegation(w *world) {
	s := w.session(alice())
	a := w.approval(s.ID, "t", store.ApprovalPending)
	far, past := time.Now().Add(time.Hour).Truncate(time.Millisecond), at(1)
	delegate := func(d store.ApprovalDelegation, want bool) {
		w.Helper()
		w.tx(func(tx store.Tx) error { same(w, got[bool](w)(tx.DelegateApproval(w.ctx, d)), want); return nil })
	}
	sees := func(in store.Scope, user string) bool {
		w.Helper()
		one, err := found(w.s.Approval(w.ctx, in, a.ID))
		w.ok(err)
		all, err := some(w.s.Approvals(w.ctx, in, store.ApprovalFilter{DelegatedTo: user}, store.Page{}))
		w.ok(err)
		if in.User() == "bob" && user == "bob" && one != all {
			w.Errorf("%+v: by id %t, in the listing %t", in, one, all)
		}
		return all
	}
	asBob, asAlice := store.As(bob()), store.As(alice())
	same(w, sees(asBob, "bob"), false)
	for _, until := range []time.Time{{}, far} {
		delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice", Until: until}, true)
		same(w, sees(asBob, "bob"), true)
	}
	same(w, sees(asBob, "alice"), false)
	same(w, sees(asAlice, "bob"), false)
	same(w, sees(store.As(store.Principal{Tenant: "other", User: "bob"}), "bob"), false)
	same(w, sees(store.As(store.Principal{Tenant: "acme"}), ""), false)
	same(w, sees(store.Within("acme"), "bob"), true)
	same(w, sees(store.Within("other"), "bob"), false)
	same(w, sees(store.System(), "bob"), true)
	own, err := w.s.Approvals(w.ctx, asBob, store.ApprovalFilter{}, store.Page{})
	w.ok(err)
	same(w, len(own), 0) // his own are listed apart
	kept := got[store.Approval](w)(w.s.Approval(w.ctx, asAlice, a.ID))
	same(w, []string{kept.DelegatedTo, kept.DelegatedBy}, []string{"bob", "alice"})
	same(w, kept.DelegatedUntil, far.UTC())
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice", Until: past}, true)
	same(w, sees(asBob, "bob"), false)
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice"}, true)
	delegate(store.ApprovalDelegation{ID: a.ID}, true)
	same(w, sees(asBob, "bob"), false)
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob"}, true)
	w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, s.ID, at(9)) })
	same(w, sees(asBob, "bob"), false)
	decided := w.approval(w.session(alice()).ID, "t", store.ApprovalApproved)
	delegate(store.ApprovalDelegation{ID: decided.ID, To: "bob"}, false)
}
