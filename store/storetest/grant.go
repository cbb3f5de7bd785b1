package storetest

import (
	"errors"
	"sync/atomic"

	"aqueduct/store"
)

func grantID(g store.Grant) string { return g.ID }

func (w *world) grant(g store.Grant) string {
	w.Helper()
	g.ID, g.CreatedAt = w.id(), at(1)
	if g.Tenant == "" {
		g.Tenant = "acme"
	}
	w.tx(func(tx store.Tx) error { return tx.InsertGrant(w.ctx, g) })
	return g.ID
}

func testGrants(w *world) {
	whole := store.Grant{ID: w.id(), Tenant: "acme", User: "alice", AgentID: "demo", SessionID: "s1", Tool: "git.*", Kind: "execute",
		Match: []byte(`{"cmd":"git status"}`), Template: "reader", CreatedBy: "bob", CreatedAt: at(1), ExpiresAt: at(100),
		MaxUses: 3, Uses: 1, RevokedAt: at(4), RevokedBy: "x", Note: "n"}
	w.tx(func(tx store.Tx) error { return tx.InsertGrant(w.ctx, whole) })
	same(w, got[store.Grant](w)(w.s.Grant(w.ctx, store.As(alice()), whole.ID)), whole)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { return tx.InsertGrant(w.ctx, whole) }), store.ErrConflict)

	hers := w.grant(store.Grant{User: "alice"})
	everyones := w.grant(store.Grant{})
	his := w.grant(store.Grant{User: "bob", AgentID: "demo"})
	here := w.grant(store.Grant{User: "alice", AgentID: "demo", SessionID: "s1"})
	spent := w.grant(store.Grant{User: "alice", MaxUses: 1, Uses: 1})
	expired := w.grant(store.Grant{User: "alice", ExpiresAt: at(50)})
	w.grant(store.Grant{Tenant: "other", User: "alice"})

	all := []string{expired, spent, here, everyones, hers, whole.ID}
	page := func(in store.Scope, p store.Page) []string {
		w.Helper()
		return idsOf(got[[]store.Grant](w)(w.s.Grants(w.ctx, in, p)), grantID)
	}
	same(w, page(store.As(alice()), store.Page{}), all)
	same(w, page(store.As(alice()), store.Page{Limit: 2, After: all[1]}), all[2:4])
	same(w, page(store.As(alice()), store.Page{Limit: 2, Before: all[4]}), all[2:4])
	same(w, page(store.As(bob()), store.Page{}), []string{his, everyones})
	same(w, len(page(store.Within("acme"), store.Page{})), 7)

	live := func(in store.Scope, user, agent, session string, ms int64) []string {
		w.Helper()
		return idsOf(got[[]store.Grant](w)(w.s.LiveGrants(w.ctx, in, "acme", user, agent, session, at(ms))), grantID)
	}
	same(w, live(store.System(), "alice", "demo", "s1", 50), []string{here, hers, everyones})
	same(w, live(store.System(), "alice", "demo", "s1", 49), []string{expired, here, hers, everyones})
	same(w, live(store.As(alice()), "alice", "demo", "s2", 50), []string{hers, everyones})
	same(w, live(store.System(), "alice", "other", "s1", 50), []string{hers, everyones})
	same(w, live(store.System(), "bob", "demo", "s1", 50), []string{his, everyones})
	same(w, live(store.As(alice()), "bob", "demo", "s1", 50), []string{everyones})
	same(w, len(live(store.As(carol()), "alice", "demo", "s1", 50)), 0)
	same(w, live(store.System(), "", "", "", 50), []string{everyones})
}

func testGrantUses(w *world) {
	use := func(id string, ms int64, want bool) {
		w.Helper()
		w.tx(func(tx store.Tx) error { same(w, got[bool](w)(tx.UseGrant(w.ctx, id, at(ms))), want); return nil })
	}
	twice := w.grant(store.Grant{MaxUses: 2})
	use(twice, 1, true)
	use(twice, 1, true)
	use(twice, 1, false)
	any := w.grant(store.Grant{ExpiresAt: at(10)})
	use(any, 9, true)
	use(any, 10, false)
	use("nothing", 1, false)
	same(w, got[store.Grant](w)(w.s.Grant(w.ctx, store.System(), any)).Uses, 1)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { _, err := tx.UseGrant(w.ctx, any, at(1)); return errors.Join(err, errNo) }), errNo)
	same(w, got[store.Grant](w)(w.s.Grant(w.ctx, store.System(), any)).Uses, 1) // undone with the rest
}

func testGrantRevocation(w *world) {
	hers, everyones := w.grant(store.Grant{User: "alice"}), w.grant(store.Grant{})
	revoke := func(in store.Scope, id string, want bool) {
		w.Helper()
		w.tx(func(tx store.Tx) error {
			same(w, got[bool](w)(tx.RevokeGrant(w.ctx, in, id, "who", at(5))), want)
			return nil
		})
	}
	for _, in := range []store.Scope{store.As(bob()), store.As(carol()), {}, store.Within(""), store.Within("other")} {
		revoke(in, hers, false)
		revoke(in, everyones, false)
	}
	revoke(store.As(alice()), everyones, false) // it is not hers alone
	revoke(store.As(alice()), hers, true)
	revoke(store.System(), hers, false)
	revoke(store.Within("acme"), everyones, true)
	g := got[store.Grant](w)(w.s.Grant(w.ctx, store.System(), hers))
	same(w, []any{g.RevokedAt, g.RevokedBy}, []any{at(5), "who"})
	w.tx(func(tx store.Tx) error { same(w, got[bool](w)(tx.UseGrant(w.ctx, hers, at(6))), false); return nil })
}

// testGrantUsesAtOnce: a Grant for ten lets ten of fifty through.
func testGrantUsesAtOnce(w *world) {
	id := w.grant(store.Grant{MaxUses: 10})
	var through atomic.Int64
	w.ok(atOnce(50, func(int) error {
		used := false
		err := w.s.InTx(w.ctx, func(tx store.Tx) (err error) { used, err = tx.UseGrant(w.ctx, id, at(1)); return err })
		if used {
			through.Add(1)
		}
		return err
	}))
	same(w, through.Load(), 10)
	same(w, got[store.Grant](w)(w.s.Grant(w.ctx, store.System(), id)).Uses, 10)
}
