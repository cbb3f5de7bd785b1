package storetest

import (
	"slices"
	"time"

	"aqueduct/store"
)

func testApprovals(env *storeEnv) {
	s, ctx, all := env.session(alice()), env.ctx, store.System()
	whole := store.Approval{ID: env.id(), SessionID: s.ID, TurnID: "t0", Kind: store.ApprovalInput,
		Status: store.ApprovalApproved, Tool: "prefs", Title: "Ask", Args: []byte(`{"b":1,"a":2}`), ArgsSHA256: "ab",
		Options: []byte(`[{"id":"1"}]`), ResponseSchema: []byte(`{"type":"object"}`), Risk: "low", CreatedAt: at(1),
		AskedUser: "alice", Approvers: []byte(`["role:approver"]`), FourEyes: true, MayEdit: true, Unconfined: true, DelegatedTo: "bob",
		DelegatedBy: "alice", DelegatedUntil: at(4), ExpiresAt: at(2), DecidedAt: at(3), DecidedBy: "alice", DecidedVia: "chat",
		Decision: []byte(`{"x":1}`), EditedArgs: []byte(`{"b":2}`), Proposed: []byte(`{"b":2}`), ProposedSHA256: "cd", ProposedBy: "carol", GrantID: "g", Reason: "r"}
	env.move(store.InsertApproval{Approval: whole})
	same(env, got[store.Approval](env)(env.s.Approval(ctx, all, whole.ID)), whole)
	env.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertApproval{Approval: whole}}})

	want := []string{whole.ID}
	for _, status := range store.AllApprovalStatuses() {
		want = append(want, env.approval(s.ID, "t1", status).ID)
	}
	other := env.session(alice())
	want = append(want, env.approval(other.ID, "t2", store.ApprovalPending).ID)
	slices.Reverse(want)
	page := func(f store.ApprovalFilter, p store.Page) []string {
		env.Helper()
		rows, err := env.s.Approvals(ctx, store.As(alice()), f, p)
		env.ok(err)
		return idsOf(rows, func(a store.Approval) string { return a.ID })
	}
	none := store.ApprovalFilter{}
	same(env, page(none, store.Page{}), want)
	same(env, page(none, store.Page{Limit: 2}), want[:2])
	same(env, page(none, store.Page{Limit: 2, After: want[1]}), want[2:4])
	same(env, page(none, store.Page{Limit: 2, Before: want[4]}), want[2:4])
	same(env, len(page(store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})), 2)
	same(env, page(store.ApprovalFilter{SessionID: other.ID}, store.Page{}), want[:1])
	same(env, page(store.ApprovalFilter{TurnID: "t0"}, store.Page{}), want[6:])
	same(env, len(page(store.ApprovalFilter{Status: store.ApprovalPending, SessionID: s.ID, TurnID: "t1"}, store.Page{})), 1)
}

func testApprovalMoves(env *storeEnv) {
	s := env.session(alice())
	for _, is := range store.AllApprovalStatuses() {
		for _, to := range append(store.AllApprovalStatuses(), "") {
			a := env.approval(s.ID, "t", is)
			move := store.ApprovalMove{ID: a.ID, To: to, DecidedAt: at(7), DecidedBy: "bob", DecidedVia: "rest",
				Decision: []byte(`{"option":"x"}`), EditedArgs: []byte(`{"a":3}`), GrantID: "g1", Reason: "because"}
			if to == store.ApprovalPending || to == "" {
				env.refuse(store.ErrData, store.Batch{Moves: []store.Move{move}})
				continue
			}
			settleApproval(env, a, move)
		}
	}
}

// settleApproval makes the move, as a Batch and as a request in turn, and checks the row.
func settleApproval(env *storeEnv, a store.Approval, m store.ApprovalMove) {
	env.Helper()
	made := false
	if m.To == store.ApprovalApproved {
		env.tx(func(tx store.Tx) (err error) { made, err = tx.MoveApproval(env.ctx, m); return err })
	} else {
		made = len(env.move(m)) == 0
	}
	if made != (a.Status == store.ApprovalPending) {
		env.Fatalf("%s→%s made %t", a.Status, m.To, made)
	}
	if made {
		a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia = m.To, m.DecidedAt, m.DecidedBy, m.DecidedVia
		a.Decision, a.Reason, a.EditedArgs, a.GrantID = m.Decision, m.Reason, m.EditedArgs, m.GrantID
	}
	same(env, got[store.Approval](env)(env.s.Approval(env.ctx, store.System(), a.ID)), a)
}

func approvalID(a store.Approval) string { return a.ID }

func testApprovalFilter(env *storeEnv) {
	s := env.session(alice())
	insert := func(kind store.ApprovalKind, tool string) string {
		a := store.Approval{ID: env.id(), SessionID: s.ID, TurnID: "t", Kind: kind, Status: store.ApprovalPending, Tool: tool,
			CreatedAt: at(1)}
		env.tx(func(tx store.Tx) error { return tx.InsertApproval(env.ctx, a) })
		return a.ID
	}
	buy, sell, ask := insert(store.ApprovalPermission, "buy"), insert(store.ApprovalPermission, "sell"), insert(store.ApprovalInput, "buy")
	for _, c := range []struct {
		f    store.ApprovalFilter
		want []string
	}{
		{store.ApprovalFilter{Kind: store.ApprovalPermission}, []string{sell, buy}},
		{store.ApprovalFilter{Status: store.ApprovalRejected}, nil},
		{store.ApprovalFilter{Tool: "buy"}, []string{ask, buy}},
		{store.ApprovalFilter{Tool: "buy", Kind: store.ApprovalInput, SessionID: s.ID, Status: store.ApprovalPending}, []string{ask}},
		{store.ApprovalFilter{Tool: "steal"}, nil},
	} {
		for _, in := range []store.Scope{store.As(alice()), store.Within("acme")} {
			same(env, idsOf(got[[]store.Approval](env)(env.s.Approvals(env.ctx, in, c.f, store.Page{})), approvalID), c.want)
		}
	}
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error {
		return tx.InsertApproval(env.ctx, store.Approval{ID: buy, SessionID: s.ID, Kind: store.ApprovalInput, Status: store.ApprovalPending})
	}), store.ErrConflict)
}

// testApprovalProposal: a proposal stands on an open Approval alone, a later one replaces it, and a decision keeps it.
func testApprovalProposal(env *storeEnv) {
	s := env.session(alice())
	a := env.approval(s.ID, "t", store.ApprovalPending)
	propose := func(id, args, by string, want bool) {
		env.Helper()
		p := store.ApprovalProposal{ID: id, Args: []byte(args), SHA256: args, By: by}
		env.tx(func(tx store.Tx) error { same(env, got[bool](env)(tx.ProposeEdit(env.ctx, p)), want); return nil })
		if want {
			a.Proposed, a.ProposedSHA256, a.ProposedBy = p.Args, p.SHA256, p.By
		}
		same(env, got[store.Approval](env)(env.s.Approval(env.ctx, store.System(), a.ID)), a)
	}
	propose(a.ID, `{"n":1}`, "bob", true)
	propose(a.ID, `{"n":2}`, "carol", true)
	propose("none", `{}`, "bob", false)
	settleApproval(env, a, store.ApprovalMove{ID: a.ID, To: store.ApprovalRejected, DecidedAt: at(7), DecidedBy: "bob", DecidedVia: "rest",
		Decision: []byte(`{}`), EditedArgs: []byte(`{}`), GrantID: "g", Reason: "r"})
	env.tx(func(tx store.Tx) error {
		same(env, got[bool](env)(tx.ProposeEdit(env.ctx, store.ApprovalProposal{ID: a.ID, Args: []byte(`{}`), By: "bob"})), false)
		return nil
	})
}

// testApprovalDelegation: who was handed an Approval sees it, until then, and nothing else
// of its Session; the same name in another tenant sees nothing.
func testApprovalDelegation(env *storeEnv) {
	s := env.session(alice())
	a := env.approval(s.ID, "t", store.ApprovalPending)
	far, past := time.Now().Add(time.Hour).Truncate(time.Millisecond), at(1)
	delegate := func(d store.ApprovalDelegation, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error { same(env, got[bool](env)(tx.DelegateApproval(env.ctx, d)), want); return nil })
	}
	sees := func(in store.Scope, user string) bool {
		env.Helper()
		one, err := found(env.s.Approval(env.ctx, in, a.ID))
		env.ok(err)
		all, err := some(env.s.Approvals(env.ctx, in, store.ApprovalFilter{DelegatedTo: user}, store.Page{}))
		env.ok(err)
		if in.User() == "bob" && user == "bob" && one != all {
			env.Errorf("%+v: by id %t, in the listing %t", in, one, all)
		}
		return all
	}
	asBob, asAlice := store.As(bob()), store.As(alice())
	same(env, sees(asBob, "bob"), false)
	for _, until := range []time.Time{{}, far} {
		delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice", Until: until}, true)
		same(env, sees(asBob, "bob"), true)
	}
	same(env, sees(asBob, "alice"), false)
	same(env, sees(asAlice, "bob"), false)
	same(env, sees(store.As(store.Principal{Tenant: "other", User: "bob"}), "bob"), false)
	same(env, sees(store.As(store.Principal{Tenant: "acme"}), ""), false)
	same(env, sees(store.Within("acme"), "bob"), true)
	same(env, sees(store.Within("other"), "bob"), false)
	same(env, sees(store.System(), "bob"), true)
	own, err := env.s.Approvals(env.ctx, asBob, store.ApprovalFilter{}, store.Page{})
	env.ok(err)
	same(env, len(own), 0) // his own are listed apart
	kept := got[store.Approval](env)(env.s.Approval(env.ctx, asAlice, a.ID))
	same(env, []string{kept.DelegatedTo, kept.DelegatedBy}, []string{"bob", "alice"})
	same(env, kept.DelegatedUntil, far.UTC())
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice", Until: past}, true)
	same(env, sees(asBob, "bob"), false)
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob", By: "alice"}, true)
	delegate(store.ApprovalDelegation{ID: a.ID}, true)
	same(env, sees(asBob, "bob"), false)
	delegate(store.ApprovalDelegation{ID: a.ID, To: "bob"}, true)
	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, s.ID, at(9)) })
	same(env, sees(asBob, "bob"), false)
	decided := env.approval(env.session(alice()).ID, "t", store.ApprovalApproved)
	delegate(store.ApprovalDelegation{ID: decided.ID, To: "bob"}, false)
}
