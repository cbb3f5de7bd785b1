package storetest

import (
	"errors"
	"slices"
	"time"

	"aqueduct/store"
)

// testShares: what a Share lets somebody see is one Session, for as long as there is the Share.
func testShares(w *world) {
	f, others := w.full(alice()), w.full(alice()) // one is shared, the other is not
	w.tx(func(tx store.Tx) error {                // the one that every full Session has
		for _, h := range got[[]store.Share](w)(tx.Shares(w.ctx, store.System(), f.session.ID)) {
			same(w, got[bool](w)(tx.DeleteShare(w.ctx, f.session.ID, h.ID)), true)
		}
		return nil
	})
	w.full(carol())
	dora := store.Principal{Tenant: "acme", User: "dora", Roles: []string{"auditor", "approver"}}
	foreign := store.Principal{Tenant: "other", User: "bob", Roles: []string{"auditor"}}
	put := func(to string, write, decide bool) store.Share {
		h := store.Share{ID: w.id(), SessionID: f.session.ID, Tenant: "acme", To: to, Write: write, Decide: decide, CreatedBy: "alice", CreatedAt: at(3)}
		w.tx(func(tx store.Tx) error { return tx.PutShare(w.ctx, h) })
		return h
	}
	absent := func(who store.Principal, by store.AccessBy) {
		w.Helper()
		if a, err := w.s.Access(w.ctx, who, by); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("%+v by %+v: %+v, %v", who, by, a, err)
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
		a := got[store.Access](w)(w.s.Access(w.ctx, bob(), by))
		same(w, []any{a.Session.ID, a.Write, a.Decide}, []any{f.session.ID, true, false})
		a = got[store.Access](w)(w.s.Access(w.ctx, dora, by))
		same(w, []any{a.Session.ID, a.Write, a.Decide}, []any{f.session.ID, false, true})
		absent(alice(), by) // it is her own
		absent(foreign, by)
		absent(store.Principal{Tenant: "acme", User: "role:auditor"}, by)
		absent(store.Principal{Tenant: "acme", User: "eve", Roles: []string{"approver"}}, by)
	}
	absent(bob(), store.AccessBy{SessionID: others.session.ID})
	both := bob()
	both.Roles = dora.Roles
	a := got[store.Access](w)(w.s.Access(w.ctx, both, every[0]))
	same(w, []bool{a.Write, a.Decide}, []bool{true, true})

	// With the Scope of the Access: this Session's rows, and nothing else that is alice's.
	empty := store.Access{Session: w.session(alice())}.Scope()
	for name, read := range w.reads(others) {
		if seen, err := read(w.s, empty); err != nil || seen {
			w.Errorf("%s of another Session: seen %t, %v", name, seen, err)
		}
	}
	for name, read := range w.owned(f) {
		if seen, err := read(w.s, a.Scope()); err != nil || seen {
			w.Errorf("%s of the owner: seen %t, %v", name, seen, err)
		}
	}
	reads := w.reads(f)
	for _, name := range []string{"Session", "Turn", "Run", "Message", "Messages", "ToolCall", "Approval", "RecordsOfTurn", "LastRun"} {
		if seen, err := reads[name](w.s, a.Scope()); err != nil || !seen {
			w.Errorf("%s: seen %t, %v", name, seen, err)
		}
	}

	listed := func(who store.Principal) []string {
		return idsOf(got[[]store.Session](w)(w.s.Sessions(w.ctx, store.Reaching(who), store.Page{})), func(s store.Session) string { return s.ID })
	}
	same(w, listed(bob()), []string{f.session.ID})
	same(w, listed(dora), []string{f.session.ID})
	same(w, len(listed(foreign)), 0)
	own := w.session(bob())
	same(w, listed(bob()), []string{own.ID, f.session.ID})
	next := got[[]store.Session](w)(w.s.Sessions(w.ctx, store.Reaching(bob()), store.Page{After: own.ID, Limit: 1}))
	same(w, len(next) == 1 && next[0].ID == f.session.ID, true)
	after := got[[]store.Session](w)(w.s.Sessions(w.ctx, store.Reaching(bob()), store.Page{After: f.session.ID}))
	same(w, len(after), 0)
	same(w, len(got[[]store.Session](w)(w.s.Sessions(w.ctx, store.Reaching(bob()), store.Page{After: others.session.ID}))), 0)
	same(w, len(got[[]store.Session](w)(w.s.Sessions(w.ctx, store.As(bob()), store.Page{}))), 1)

	// Who may decide sees the Approval among what waits for a decision; who may write does not.
	decides := func(who store.Principal) bool {
		open := got[[]store.ApprovalChange](w)(w.s.OpenApprovals(w.ctx, store.Deciding(who), store.Page{}))
		return slices.ContainsFunc(open, func(c store.ApprovalChange) bool { return c.Approval.ID == f.approval.ID })
	}
	reader := store.Principal{Tenant: "acme", User: "rita", Roles: []string{"auditor"}}
	same(w, []bool{decides(bob()), decides(reader), decides(foreign)}, []bool{false, true, false})

	shares := got[[]store.Share](w)(w.s.Shares(w.ctx, store.As(alice()), f.session.ID))
	same(w, shares, []store.Share{toBob, toRole})
	toBob.Write, toBob.Decide = false, true
	changed := put("user:bob", false, true)
	same(w, got[[]store.Share](w)(w.s.Shares(w.ctx, store.As(alice()), f.session.ID)), []store.Share{toBob, toRole})
	drop := func(session, id string, want bool) {
		w.Helper()
		w.tx(func(tx store.Tx) error {
			same(w, got[bool](w)(tx.DeleteShare(w.ctx, session, id)), want)
			return nil
		})
	}
	drop(f.session.ID, changed.ID, false) // it has the id it began with
	drop(others.session.ID, toBob.ID, false)
	drop(f.session.ID, toBob.ID, true)
	drop(f.session.ID, toBob.ID, false)
	absent(bob(), every[0])
	w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, f.session.ID, time.Now()) })
	absent(dora, every[0])
	same(w, len(listed(dora)), 0)
}
