package storetest

import (
	"errors"
	"slices"
	"time"

	"aqueduct/store"
)

// testShares: what a Share lets a user see is one Session, for as long as there is the Share.
func testShares(env *storeEnv) {
	f, others := insertFull(env, alice()), insertFull(env, alice()) // one is shared, the other is not
	env.tx(func(tx store.Tx) error {                                // the one that every full Session has
		for _, h := range got[[]store.Share](env)(tx.Shares(env.ctx, store.System(), f.session.ID)) {
			same(env, got[bool](env)(tx.DeleteShare(env.ctx, f.session.ID, h.ID)), true)
		}
		return nil
	})
	insertFull(env, carol())
	dora := store.Principal{Tenant: "acme", User: "dora", Roles: []string{"auditor", "approver"}}
	foreign := store.Principal{Tenant: "other", User: "bob", Roles: []string{"auditor"}}
	put := func(to string, write, decide bool) store.Share {
		h := store.Share{ID: env.id(), SessionID: f.session.ID, Tenant: "acme", To: to, Write: write, Decide: decide, CreatedBy: "alice", CreatedAt: at(3)}
		env.tx(func(tx store.Tx) error { return tx.PutShare(env.ctx, h) })
		return h
	}
	absent := func(who store.Principal, by store.AccessBy) {
		env.Helper()
		if a, err := env.s.Access(env.ctx, who, by); !errors.Is(err, store.ErrNotFound) {
			env.Errorf("%+v by %+v: %+v, %v", who, by, a, err)
		}
	}
	every := []store.AccessBy{
		{SessionID: f.session.ID}, {RunID: f.run.ID}, {RunID: f.run.ExternalID}, {ToolCallID: f.toolCall.ID},
	}
	for _, by := range append(every, store.AccessBy{}) {
		for _, who := range []store.Principal{alice(), bob(), carol(), dora, foreign, {}} {
			absent(who, by)
		}
	}
	toBob, toRole := put("user:bob", true, false), put("role:auditor", false, true)
	for _, by := range every {
		a := got[store.Access](env)(env.s.Access(env.ctx, bob(), by))
		same(env, []any{a.Session.ID, a.Write, a.Decide}, []any{f.session.ID, true, false})
		a = got[store.Access](env)(env.s.Access(env.ctx, dora, by))
		same(env, []any{a.Session.ID, a.Write, a.Decide}, []any{f.session.ID, false, true})
		absent(alice(), by) // it is her own
		absent(foreign, by)
		absent(store.Principal{Tenant: "acme", User: "role:auditor"}, by)
		absent(store.Principal{Tenant: "acme", User: "eve", Roles: []string{"approver"}}, by)
	}
	absent(bob(), store.AccessBy{SessionID: others.session.ID})
	both := bob()
	both.Roles = dora.Roles
	a := got[store.Access](env)(env.s.Access(env.ctx, both, every[0]))
	same(env, []bool{a.Write, a.Decide}, []bool{true, true})

	// With the Scope of the Access: this Session's rows, and nothing else that is alice's.
	empty := store.Access{Session: env.session(alice())}.Scope()
	for name, read := range readsOfSession(env, others) {
		if seen, err := read(env.s, empty); err != nil || seen {
			env.Errorf("%s of another Session: seen %t, %v", name, seen, err)
		}
	}
	for name, read := range ownerReads(env, f) {
		if seen, err := read(env.s, a.Scope()); err != nil || seen {
			env.Errorf("%s of the owner: seen %t, %v", name, seen, err)
		}
	}
	reads := readsOfSession(env, f)
	for _, name := range []string{"Session", "Turn", "Run", "Message", "Messages", "ToolCall", "Approval", "RecordsOfTurn", "LastRun"} {
		if seen, err := reads[name](env.s, a.Scope()); err != nil || !seen {
			env.Errorf("%s: seen %t, %v", name, seen, err)
		}
	}

	listed := func(who store.Principal) []string {
		return idsOf(got[[]store.Session](env)(env.s.Sessions(env.ctx, store.Reaching(who), store.Page{})), func(s store.Session) string { return s.ID })
	}
	same(env, listed(bob()), []string{f.session.ID})
	same(env, listed(dora), []string{f.session.ID})
	same(env, len(listed(foreign)), 0)
	own := env.session(bob())
	same(env, listed(bob()), []string{own.ID, f.session.ID})
	next := got[[]store.Session](env)(env.s.Sessions(env.ctx, store.Reaching(bob()), store.Page{After: own.ID, Limit: 1}))
	same(env, len(next) == 1 && next[0].ID == f.session.ID, true)
	after := got[[]store.Session](env)(env.s.Sessions(env.ctx, store.Reaching(bob()), store.Page{After: f.session.ID}))
	same(env, len(after), 0)
	same(env, len(got[[]store.Session](env)(env.s.Sessions(env.ctx, store.Reaching(bob()), store.Page{After: others.session.ID}))), 0)
	same(env, len(got[[]store.Session](env)(env.s.Sessions(env.ctx, store.As(bob()), store.Page{}))), 1)

	// Who may decide sees the Approval among what waits for a decision; who may write does not.
	decides := func(who store.Principal) bool {
		open := got[[]store.ApprovalChange](env)(env.s.OpenApprovals(env.ctx, store.Deciding(who), store.Page{}))
		return slices.ContainsFunc(open, func(c store.ApprovalChange) bool { return c.Approval.ID == f.approval.ID })
	}
	reader := store.Principal{Tenant: "acme", User: "rita", Roles: []string{"auditor"}}
	same(env, []bool{decides(bob()), decides(reader), decides(foreign)}, []bool{false, true, false})

	shares := got[[]store.Share](env)(env.s.Shares(env.ctx, store.As(alice()), f.session.ID))
	same(env, shares, []store.Share{toBob, toRole})
	toBob.Write, toBob.Decide = false, true
	changed := put("user:bob", false, true)
	same(env, got[[]store.Share](env)(env.s.Shares(env.ctx, store.As(alice()), f.session.ID)), []store.Share{toBob, toRole})
	drop := func(session, id string, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.DeleteShare(env.ctx, session, id)), want)
			return nil
		})
	}
	drop(f.session.ID, changed.ID, false) // it has the id it began with
	drop(others.session.ID, toBob.ID, false)
	drop(f.session.ID, toBob.ID, true)
	drop(f.session.ID, toBob.ID, false)
	absent(bob(), every[0])
	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, f.session.ID, time.Now()) })
	absent(dora, every[0])
	same(env, len(listed(dora)), 0)
}
