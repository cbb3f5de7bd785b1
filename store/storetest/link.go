package storetest

import (
	"sync/atomic"

	"aqueduct/store"
)

// useLink is UseLink in a transaction of its own.
func useLink(env *storeEnv, l store.UsedLink) (first bool, err error) {
	err = env.s.InTx(env.ctx, func(tx store.Tx) (err error) { first, err = tx.UseLink(env.ctx, l); return err })
	return first, err
}

func testUsedLinks(env *storeEnv) {
	alice := alice()
	l := store.UsedLink{ID: env.id(), ApprovalID: env.id(), Tenant: alice.Tenant, User: alice.User, UsedAt: at(1), ExpiresAt: at(10)}
	later := l
	later.UsedAt = at(2)
	absent := func(in store.Scope) {
		env.Helper()
		_, err := env.s.UsedLink(env.ctx, in, l.ID)
		env.is(err, store.ErrNotFound)
	}
	absent(store.System())
	same(env, got[bool](env)(useLink(env, l)), true)
	same(env, got[bool](env)(useLink(env, later)), false)
	for _, in := range []store.Scope{store.System(), store.As(alice), store.Within(alice.Tenant)} {
		same(env, got[store.UsedLink](env)(env.s.UsedLink(env.ctx, in, l.ID)), l)
	}
	absent(store.As(store.Principal{Tenant: alice.Tenant, User: "other"}))
	absent(store.As(store.Principal{Tenant: "other", User: alice.User}))
	absent(store.Scope{})

	env.tx(func(tx store.Tx) error { return tx.ReleaseLink(env.ctx, l.ID) })
	absent(store.System())
	same(env, got[bool](env)(useLink(env, later)), true)
	env.tx(func(tx store.Tx) error { return tx.DropUsedLinks(env.ctx, at(10)) })
	same(env, got[store.UsedLink](env)(env.s.UsedLink(env.ctx, store.System(), l.ID)), later)
	env.tx(func(tx store.Tx) error { return tx.DropUsedLinks(env.ctx, at(11)) })
	absent(store.System())
}

// testOneUsesLink: of many at once one uses it.
func testOneUsesLink(env *storeEnv) {
	l := store.UsedLink{ID: env.id(), ApprovalID: env.id(), Tenant: "t", User: "u", UsedAt: at(1), ExpiresAt: at(10)}
	var first atomic.Int64
	env.ok(atOnce(20, func(int) error {
		mine, err := useLink(env, l)
		if mine {
			first.Add(1)
		}
		return err
	}))
	same(env, first.Load(), 1)
}
