package storetest

import (
	"sync/atomic"

	"aqueduct/store"
)

// use is UseLink in a transaction of its own.
func (w *world) use(l store.UsedLink) (first bool, err error) {
	err = w.s.InTx(w.ctx, func(tx store.Tx) (err error) { first, err = tx.UseLink(w.ctx, l); return err })
	return first, err
}

func testUsedLinks(w *world) {
	alice := alice()
	l := store.UsedLink{ID: w.id(), ApprovalID: w.id(), Tenant: alice.Tenant, User: alice.User, UsedAt: at(1), ExpiresAt: at(10)}
	later := l
	later.UsedAt = at(2)
	absent := func(in store.Scope) {
		w.Helper()
		_, err := w.s.UsedLink(w.ctx, in, l.ID)
		w.is(err, store.ErrNotFound)
	}
	absent(store.System())
	same(w, got[bool](w)(w.use(l)), true)
	same(w, got[bool](w)(w.use(later)), false)
	for _, in := range []store.Scope{store.System(), store.As(alice), store.Within(alice.Tenant)} {
		same(w, got[store.UsedLink](w)(w.s.UsedLink(w.ctx, in, l.ID)), l)
	}
	absent(store.As(store.Principal{Tenant: alice.Tenant, User: "other"}))
	absent(store.As(store.Principal{Tenant: "other", User: alice.User}))
	absent(store.Scope{})

	w.tx(func(tx store.Tx) error { return tx.ReleaseLink(w.ctx, l.ID) })
	absent(store.System())
	same(w, got[bool](w)(w.use(later)), true)
	w.tx(func(tx store.Tx) error { return tx.DropUsedLinks(w.ctx, at(10)) })
	same(w, got[store.UsedLink](w)(w.s.UsedLink(w.ctx, store.System(), l.ID)), later)
	w.tx(func(tx store.Tx) error { return tx.DropUsedLinks(w.ctx, at(11)) })
	absent(store.System())
}

// testOneUsesLink: of many at once one uses it.
func testOneUsesLink(w *world) {
	l := store.UsedLink{ID: w.id(), ApprovalID: w.id(), Tenant: "t", User: "u", UsedAt: at(1), ExpiresAt: at(10)}
	var first atomic.Int64
	w.ok(atOnce(20, func(int) error {
		mine, err := w.use(l)
		if mine {
			first.Add(1)
		}
		return err
	}))
	same(w, first.Load(), 1)
}
