package storetest

import (
	"time"

	"aqueduct/store"
)

func (w *world) upsertTool(t store.Tool) {
	w.Helper()
	w.tx(func(tx store.Tx) error { return tx.UpsertTool(w.ctx, t) })
}

func testTools(w *world) {
	full := store.Tool{Name: "mail.send", Tenant: "acme", Kind: store.KindServer, Endpoint: "https://x/y",
		Schema: []byte(`{"type":"object"}`), Policy: []byte(`{"risk":"high"}`), Metadata: []byte(`{"z":1, "a":2}`),
		Timeout: 2500 * time.Millisecond, OnFailure: store.FailureEndsRun, Source: store.ToolFromAPI, CreatedAt: at(1), UpdatedAt: at(1)}
	shared := store.Tool{Name: "mail.send", Kind: store.KindClient, Source: store.ToolFromFile, CreatedAt: at(2), UpdatedAt: at(2)}
	w.upsertTool(full)
	w.upsertTool(shared)
	ask := func(in store.Scope) (store.Tool, error) { return w.s.Tool(w.ctx, in, "mail.send") }
	same(w, got[store.Tool](w)(ask(store.As(bob()))), full)
	same(w, got[store.Tool](w)(ask(store.As(carol()))), shared)
	same(w, got[store.Tool](w)(ask(store.System())), shared)
	same(w, got[store.Tool](w)(w.s.ToolOf(w.ctx, store.System(), "acme", "mail.send")), full)
	same(w, got[store.Tool](w)(w.s.ToolOf(w.ctx, store.System(), "third", "mail.send")), shared)
	_, err := w.s.ToolOf(w.ctx, store.As(carol()), "acme", "mail.send")
	w.is(err, store.ErrNotFound)
	_, err = w.s.Tool(w.ctx, store.As(alice()), "nothing")
	w.is(err, store.ErrNotFound)

	full = store.Tool{Name: full.Name, Tenant: "acme", Kind: store.KindClient, CreatedAt: at(8), UpdatedAt: at(9)}
	w.upsertTool(full) // a write is a whole row
	full.CreatedAt = at(1)
	same(w, got[store.Tool](w)(ask(store.As(bob()))), full)
	for _, want := range []bool{true, false} {
		w.tx(func(tx store.Tx) error {
			same(w, got[bool](w)(tx.DeleteTool(w.ctx, "acme", "mail.send")), want)
			return nil
		})
	}
	same(w, got[store.Tool](w)(ask(store.As(bob()))), shared)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error {
		return tx.UpsertTool(w.ctx, store.Tool{Name: "bad", Kind: store.KindServer, Schema: []byte(`{`)})
	}), store.ErrData)
}

func testToolListing(w *world) {
	for _, t := range []store.Tool{{Name: "b"}, {Name: "c"}, {Name: "a", Tenant: "acme"}, {Name: "b", Tenant: "acme"}, {Name: "d", Tenant: "other"}} {
		t.Kind, t.CreatedAt, t.UpdatedAt = store.KindServer, at(1), at(1)
		w.upsertTool(t)
	}
	listed := func(in store.Scope, p store.Page) []string {
		w.Helper()
		return idsOf(got[[]store.Tool](w)(w.s.Tools(w.ctx, in, p)), func(t store.Tool) string { return t.Tenant + "/" + t.Name })
	}
	acme := []string{"acme/a", "acme/b", "/c"}
	for _, in := range []store.Scope{store.As(alice()), store.Within("acme")} {
		same(w, listed(in, store.Page{}), acme)
		same(w, listed(in, store.Page{After: "a", Limit: 1}), acme[1:2])
		same(w, listed(in, store.Page{Before: "c", Limit: 1}), acme[1:2])
	}
	same(w, listed(store.As(carol()), store.Page{}), []string{"/b", "/c", "other/d"})
	every := []string{"/b", "/c", "acme/a", "acme/b", "other/d"}
	same(w, listed(store.System(), store.Page{}), every)
	same(w, listed(store.System(), store.Page{After: "/c", Limit: 2}), every[2:4])
	same(w, listed(store.System(), store.Page{Before: "acme/b", Limit: 2}), every[1:3])
}
