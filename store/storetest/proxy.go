package storetest

import (
	"slices"

	"aqueduct/store"
)

func (w *world) upsert(p store.Proxy) {
	w.Helper()
	w.tx(func(tx store.Tx) error { return tx.UpsertProxy(w.ctx, p) })
}

func testProxies(w *world) {
	full := store.Proxy{ID: "mac.local:1", Name: "Ada's", AgentID: "opencode", Capabilities: []byte(`{"acpTunnel":true, "z":1.0}`),
		MaxConcurrent: 3, Status: store.ProxyOnline, RegisteredAt: at(1), ConnectedAt: at(1), LastSeen: at(2), LastError: "no\x00room",
		Sandboxes: []byte(`{"instances":[]}`), Workspaces: []byte(`{"workspaces":[]}`)}
	bare := store.Proxy{ID: "z", Status: store.ProxyOffline} // of before its time was kept
	w.upsert(full)
	w.upsert(bare)
	full.LastError = "no\ufffdroom"
	same(w, got[store.Proxy](w)(w.s.Proxy(w.ctx, store.System(), full.ID)), full)
	same(w, got[[]store.Proxy](w)(w.s.Proxies(w.ctx, store.System())), []store.Proxy{bare, full})
	_, err := w.s.Proxy(w.ctx, store.System(), "nobody")
	w.is(err, store.ErrNotFound)

	full = store.Proxy{ID: full.ID, Status: store.ProxyOffline, RegisteredAt: at(9)} // a write is a whole row
	w.upsert(full)
	full.RegisteredAt = at(1) // but for this
	same(w, got[store.Proxy](w)(w.s.Proxy(w.ctx, store.System(), full.ID)), full)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error {
		return tx.UpsertProxy(w.ctx, store.Proxy{ID: "bad", Status: store.ProxyOnline, Capabilities: []byte(`{`)})
	}), store.ErrData)
}

func testSandboxInstances(w *world) {
	var want []store.SandboxInstance
	for range 5 {
		s := w.session(alice())
		i := store.SandboxInstance{SessionID: s.ID, ProxyID: "p1", InstanceName: "tuixiu-run-" + s.ID, ACPSessionID: "ses_1",
			Status: "running", Provider: "host_process", Runtime: "local", LastSeen: at(3), LastError: "e",
			Transport: []byte(`{"type":"transport_connected"}`), Init: []byte(`{"ok":true}`), TokenHash: []byte{0, 255, 7}, CreatedAt: at(1), UpdatedAt: at(2)}
		w.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(w.ctx, i) })
		want = append(want, i)
	}
	slices.Reverse(want)
	page := func(proxy string, p store.Page) []store.SandboxInstance {
		w.Helper()
		return got[[]store.SandboxInstance](w)(w.s.SandboxInstancesOf(w.ctx, store.System(), proxy, p))
	}
	same(w, page("p1", store.Page{}), want)
	same(w, page("p1", store.Page{Limit: 2, After: want[1].SessionID}), want[2:4])
	same(w, page("p1", store.Page{Limit: 2, Before: want[3].SessionID}), want[1:3])
	same(w, len(page("p2", store.Page{})), 0)

	moved := store.SandboxInstance{SessionID: want[0].SessionID, ProxyID: "p2", CreatedAt: at(8), UpdatedAt: at(9)}
	w.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(w.ctx, moved) })
	moved.CreatedAt = want[0].CreatedAt
	same(w, got[store.SandboxInstance](w)(w.s.SandboxInstance(w.ctx, store.As(alice()), moved.SessionID)), moved)
	same(w, page("p2", store.Page{}), []store.SandboxInstance{moved})
	same(w, len(page("p1", store.Page{})), 4)

	s := w.session(alice())
	beside := store.SandboxInstance{SessionID: "of-its-own", OfSession: s.ID, AgentID: "other", ProxyID: "p3", CreatedAt: at(1), UpdatedAt: at(2)}
	w.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(w.ctx, beside) })
	same(w, got[store.SandboxInstance](w)(w.s.SandboxInstance(w.ctx, store.As(alice()), beside.SessionID)), beside)
	same(w, page("p3", store.Page{}), []store.SandboxInstance{beside})

	late := want[2]
	late.UpdatedAt = at(5)
	w.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(w.ctx, late) })
	w.tx(func(tx store.Tx) error { return tx.RevokeInstanceTokens(w.ctx, "p1", at(5)) })
	for _, i := range page("p1", store.Page{}) {
		same(w, len(i.TokenHash) > 0, i.SessionID == late.SessionID)
	}

	w.upsert(store.Proxy{ID: "p1", Status: store.ProxyOffline})
	remove := func(id string) (found bool) {
		w.Helper()
		w.tx(func(tx store.Tx) (err error) {
			found, err = tx.DeleteProxy(w.ctx, id)
			return err
		})
		return found
	}
	same(w, []bool{remove("p1"), remove("p1")}, []bool{true, false})
	_, err := w.s.Proxy(w.ctx, store.System(), "p1")
	w.is(err, store.ErrNotFound)
	same(w, len(page("p1", store.Page{})), 0) // they go with it
	same(w, page("p2", store.Page{}), []store.SandboxInstance{moved})
}
