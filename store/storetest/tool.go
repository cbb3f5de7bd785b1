package storetest

import (
	"time"

	"aqueduct/store"
)

func upsertTool(env *storeEnv, t store.Tool) {
	env.Helper()
	env.tx(func(tx store.Tx) error { return tx.UpsertTool(env.ctx, t) })
}

func testTools(env *storeEnv) {
	full := store.Tool{Name: "mail.send", Tenant: "acme", Kind: store.KindServer, Endpoint: "https://x/y",
		Schema: []byte(`{"type":"object"}`), Policy: []byte(`{"risk":"high"}`), Metadata: []byte(`{"z":1, "a":2}`),
		Timeout: 2500 * time.Millisecond, OnFailure: store.FailureEndsRun, Source: store.ToolFromAPI, CreatedAt: at(1), UpdatedAt: at(1)}
	shared := store.Tool{Name: "mail.send", Kind: store.KindClient, Source: store.ToolFromFile, CreatedAt: at(2), UpdatedAt: at(2)}
	upsertTool(env, full)
	upsertTool(env, shared)
	ask := func(in store.Scope) (store.Tool, error) { return env.s.Tool(env.ctx, in, "mail.send") }
	same(env, got[store.Tool](env)(ask(store.As(bob()))), full)
	same(env, got[store.Tool](env)(ask(store.As(carol()))), shared)
	same(env, got[store.Tool](env)(ask(store.System())), shared)
	same(env, got[store.Tool](env)(env.s.ToolOf(env.ctx, store.System(), "acme", "mail.send")), full)
	same(env, got[store.Tool](env)(env.s.ToolOf(env.ctx, store.System(), "third", "mail.send")), shared)
	_, err := env.s.ToolOf(env.ctx, store.As(carol()), "acme", "mail.send")
	env.is(err, store.ErrNotFound)
	_, err = env.s.Tool(env.ctx, store.As(alice()), "nothing")
	env.is(err, store.ErrNotFound)

	full = store.Tool{Name: full.Name, Tenant: "acme", Kind: store.KindClient, CreatedAt: at(8), UpdatedAt: at(9)}
	upsertTool(env, full) // a write is a whole row
	full.CreatedAt = at(1)
	same(env, got[store.Tool](env)(ask(store.As(bob()))), full)
	for _, want := range []bool{true, false} {
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.DeleteTool(env.ctx, "acme", "mail.send")), want)
			return nil
		})
	}
	same(env, got[store.Tool](env)(ask(store.As(bob()))), shared)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error {
		return tx.UpsertTool(env.ctx, store.Tool{Name: "bad", Kind: store.KindServer, Schema: []byte(`{`)})
	}), store.ErrData)
}

func testToolListing(env *storeEnv) {
	for _, t := range []store.Tool{{Name: "b"}, {Name: "c"}, {Name: "a", Tenant: "acme"}, {Name: "b", Tenant: "acme"}, {Name: "d", Tenant: "other"}} {
		t.Kind, t.CreatedAt, t.UpdatedAt = store.KindServer, at(1), at(1)
		upsertTool(env, t)
	}
	listed := func(in store.Scope, p store.Page) []string {
		env.Helper()
		return idsOf(got[[]store.Tool](env)(env.s.Tools(env.ctx, in, p)), func(t store.Tool) string { return t.Tenant + "/" + t.Name })
	}
	acme := []string{"acme/a", "acme/b", "/c"}
	for _, in := range []store.Scope{store.As(alice()), store.Within("acme")} {
		same(env, listed(in, store.Page{}), acme)
		same(env, listed(in, store.Page{After: "a", Limit: 1}), acme[1:2])
		same(env, listed(in, store.Page{Before: "c", Limit: 1}), acme[1:2])
	}
	same(env, listed(store.As(carol()), store.Page{}), []string{"/b", "/c", "other/d"})
	every := []string{"/b", "/c", "acme/a", "acme/b", "other/d"}
	same(env, listed(store.System(), store.Page{}), every)
	same(env, listed(store.System(), store.Page{After: "/c", Limit: 2}), every[2:4])
	same(env, listed(store.System(), store.Page{Before: "acme/b", Limit: 2}), every[1:3])
}

// testToolPins: a definition is confirmed for every tenant, a tenant or a user, and for no other.
func testToolPins(env *storeEnv) {
	pin := func(p store.ToolPin) bool {
		var made bool
		env.tx(func(tx store.Tx) (err error) {
			p.CreatedAt = at(1)
			made, err = tx.PinTool(env.ctx, p)
			return err
		})
		return made
	}
	same(env, pin(store.ToolPin{Tool: "files.read", SHA256: "a"}), true)
	same(env, pin(store.ToolPin{Tool: "files.read", SHA256: "a"}), false)
	same(env, pin(store.ToolPin{Tool: "files.read", SHA256: "b", Tenant: "acme", By: "ann"}), true)
	same(env, pin(store.ToolPin{Tool: "files.read", SHA256: "c", Tenant: "acme", User: "bob", By: "bob"}), true)
	for ask, want := range map[store.ToolPin]bool{
		{Tool: "files.read", SHA256: "a", Tenant: "other", User: "x"}:  true,
		{Tool: "files.read", SHA256: "b", Tenant: "acme", User: "x"}:   true,
		{Tool: "files.read", SHA256: "b", Tenant: "other"}:             false,
		{Tool: "files.read", SHA256: "c", Tenant: "acme", User: "bob"}: true,
		{Tool: "files.read", SHA256: "c", Tenant: "acme", User: "eve"}: false,
		{Tool: "files.read", SHA256: "c", Tenant: "acme"}:              false,
		{Tool: "files.write", SHA256: "a"}:                             false,
		{Tool: "files.read", SHA256: "d"}:                              false,
	} {
		same(env, got[bool](env)(env.s.ToolPinned(env.ctx, store.System(), ask)), want)
	}
}
