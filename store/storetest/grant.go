package storetest

import (
	"errors"
	"sync/atomic"

	"aqueduct/store"
)

func grantID(g store.Grant) string { return g.ID }

func insertGrant(env *storeEnv, g store.Grant) string {
	env.Helper()
	g.ID, g.CreatedAt = env.id(), at(1)
	if g.Tenant == "" {
		g.Tenant = "acme"
	}
	env.tx(func(tx store.Tx) error { return tx.InsertGrant(env.ctx, g) })
	return g.ID
}

func testGrants(env *storeEnv) {
	whole := store.Grant{ID: env.id(), Tenant: "acme", User: "alice", AgentID: "demo", SessionID: "s1", Tool: "git.*", Kind: "execute",
		Match: []byte(`{"cmd":"git status"}`), Template: "reader", CreatedBy: "bob", CreatedAt: at(1), ExpiresAt: at(100),
		MaxUses: 3, Uses: 1, RevokedAt: at(4), RevokedBy: "x", Note: "n"}
	env.tx(func(tx store.Tx) error { return tx.InsertGrant(env.ctx, whole) })
	same(env, got[store.Grant](env)(env.s.Grant(env.ctx, store.As(alice()), whole.ID)), whole)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { return tx.InsertGrant(env.ctx, whole) }), store.ErrConflict)

	hers := insertGrant(env, store.Grant{User: "alice"})
	everyones := insertGrant(env, store.Grant{})
	his := insertGrant(env, store.Grant{User: "bob", AgentID: "demo"})
	here := insertGrant(env, store.Grant{User: "alice", AgentID: "demo", SessionID: "s1"})
	spent := insertGrant(env, store.Grant{User: "alice", MaxUses: 1, Uses: 1})
	expired := insertGrant(env, store.Grant{User: "alice", ExpiresAt: at(50)})
	insertGrant(env, store.Grant{Tenant: "other", User: "alice"})

	all := []string{expired, spent, here, everyones, hers, whole.ID}
	page := func(in store.Scope, p store.Page) []string {
		env.Helper()
		return idsOf(got[[]store.Grant](env)(env.s.Grants(env.ctx, in, p)), grantID)
	}
	same(env, page(store.As(alice()), store.Page{}), all)
	same(env, page(store.As(alice()), store.Page{Limit: 2, After: all[1]}), all[2:4])
	same(env, page(store.As(alice()), store.Page{Limit: 2, Before: all[4]}), all[2:4])
	same(env, page(store.As(bob()), store.Page{}), []string{his, everyones})
	same(env, len(page(store.Within("acme"), store.Page{})), 7)

	live := func(in store.Scope, user, agent, session string, ms int64) []string {
		env.Helper()
		return idsOf(got[[]store.Grant](env)(env.s.LiveGrants(env.ctx, in, "acme", user, agent, session, at(ms))), grantID)
	}
	same(env, live(store.System(), "alice", "demo", "s1", 50), []string{here, hers, everyones})
	same(env, live(store.System(), "alice", "demo", "s1", 49), []string{expired, here, hers, everyones})
	same(env, live(store.As(alice()), "alice", "demo", "s2", 50), []string{hers, everyones})
	same(env, live(store.System(), "alice", "other", "s1", 50), []string{hers, everyones})
	same(env, live(store.System(), "bob", "demo", "s1", 50), []string{his, everyones})
	same(env, live(store.As(alice()), "bob", "demo", "s1", 50), []string{everyones})
	same(env, len(live(store.As(carol()), "alice", "demo", "s1", 50)), 0)
	same(env, live(store.System(), "", "", "", 50), []string{everyones})
}

func testGrantUses(env *storeEnv) {
	use := func(id string, ms int64, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error { same(env, got[bool](env)(tx.UseGrant(env.ctx, id, at(ms))), want); return nil })
	}
	twice := insertGrant(env, store.Grant{MaxUses: 2})
	use(twice, 1, true)
	use(twice, 1, true)
	use(twice, 1, false)
	any := insertGrant(env, store.Grant{ExpiresAt: at(10)})
	use(any, 9, true)
	use(any, 10, false)
	use("nothing", 1, false)
	same(env, got[store.Grant](env)(env.s.Grant(env.ctx, store.System(), any)).Uses, 1)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { _, err := tx.UseGrant(env.ctx, any, at(1)); return errors.Join(err, errNo) }), errNo)
	same(env, got[store.Grant](env)(env.s.Grant(env.ctx, store.System(), any)).Uses, 1) // undone with the rest
}

func testGrantRevocation(env *storeEnv) {
	hers, everyones := insertGrant(env, store.Grant{User: "alice"}), insertGrant(env, store.Grant{})
	revoke := func(in store.Scope, id string, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.RevokeGrant(env.ctx, in, id, "who", at(5))), want)
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
	g := got[store.Grant](env)(env.s.Grant(env.ctx, store.System(), hers))
	same(env, []any{g.RevokedAt, g.RevokedBy}, []any{at(5), "who"})
	env.tx(func(tx store.Tx) error {
		same(env, got[bool](env)(tx.UseGrant(env.ctx, hers, at(6))), false)
		return nil
	})
}

// testGrantUsesAtOnce: a Grant for ten lets ten of fifty through.
func testGrantUsesAtOnce(env *storeEnv) {
	id := insertGrant(env, store.Grant{MaxUses: 10})
	var through atomic.Int64
	env.ok(atOnce(50, func(int) error {
		used := false
		err := env.s.InTx(env.ctx, func(tx store.Tx) (err error) { used, err = tx.UseGrant(env.ctx, id, at(1)); return err })
		if used {
			through.Add(1)
		}
		return err
	}))
	same(env, through.Load(), 10)
	same(env, got[store.Grant](env)(env.s.Grant(env.ctx, store.System(), id)).Uses, 10)
}
