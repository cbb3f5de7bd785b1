package storetest

import (
	"slices"

	"aqueduct/store"
)

func upsertProxy(env *storeEnv, p store.Proxy) {
	env.Helper()
	env.tx(func(tx store.Tx) error { return tx.UpsertProxy(env.ctx, p) })
}

func testProxies(env *storeEnv) {
	full := store.Proxy{ID: "mac.local:1", Name: "Ada's", AgentID: "opencode", Capabilities: []byte(`{"acpTunnel":true, "z":1.0}`),
		MaxConcurrent: 3, Status: store.ProxyOnline, RegisteredAt: at(1), ConnectedAt: at(1), LastSeen: at(2), LastError: "no\x00room",
		Sandboxes: []byte(`{"instances":[]}`), Workspaces: []byte(`{"workspaces":[]}`)}
	bare := store.Proxy{ID: "z", Status: store.ProxyOffline} // of before its time was kept
	upsertProxy(env, full)
	upsertProxy(env, bare)
	full.LastError = "no\ufffdroom"
	same(env, got[store.Proxy](env)(env.s.Proxy(env.ctx, store.System(), full.ID)), full)
	same(env, got[[]store.Proxy](env)(env.s.Proxies(env.ctx, store.System())), []store.Proxy{bare, full})
	_, err := env.s.Proxy(env.ctx, store.System(), "nobody")
	env.is(err, store.ErrNotFound)

	full = store.Proxy{ID: full.ID, Status: store.ProxyOffline, RegisteredAt: at(9)} // a write is a whole row
	upsertProxy(env, full)
	full.RegisteredAt = at(1) // but for this
	same(env, got[store.Proxy](env)(env.s.Proxy(env.ctx, store.System(), full.ID)), full)

	// Its link moves from one replica to another, which the first one notices late.
	other := env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: other, Name: "two"}))
	links := func(want ...store.ProxyLink) {
		env.Helper()
		same(env, got[[]store.ProxyLink](env)(env.s.ProxyLinks(env.ctx, store.System())), want)
	}
	state := func(status store.ProxyStatus, replica string) {
		env.Helper()
		upsertProxy(env, store.Proxy{ID: full.ID, AgentID: "a", Status: status, Replica: replica})
	}
	links()
	state(store.ProxyOnline, env.replica)
	links(store.ProxyLink{ProxyID: full.ID, AgentID: "a", Replica: env.replica})
	state(store.ProxyOnline, other)
	state(store.ProxyOffline, env.replica)
	links(store.ProxyLink{ProxyID: full.ID, AgentID: "a", Replica: other})
	env.ok(env.s.Fence(env.ctx, other))
	links()
	state(store.ProxyOffline, env.replica)
	same(env, got[store.Proxy](env)(env.s.Proxy(env.ctx, store.System(), full.ID)).Status, store.ProxyOffline)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error {
		return tx.UpsertProxy(env.ctx, store.Proxy{ID: "bad", Status: store.ProxyOnline, Capabilities: []byte(`{`)})
	}), store.ErrData)
}

func testSandboxInstances(env *storeEnv) {
	var want []store.SandboxInstance
	for range 5 {
		s := env.session(alice())
		i := store.SandboxInstance{SessionID: s.ID, ProxyID: "p1", InstanceName: "tuixiu-run-" + s.ID, ACPSessionID: "ses_1",
			Status: "running", Provider: "host_process", Runtime: "local", LastSeen: at(3), LastError: "e",
			Transport: []byte(`{"type":"transport_connected"}`), Init: []byte(`{"ok":true}`), TokenHash: []byte{0, 255, 7}, CreatedAt: at(1), UpdatedAt: at(2)}
		env.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(env.ctx, i) })
		want = append(want, i)
	}
	slices.Reverse(want)
	page := func(proxy string, p store.Page) []store.SandboxInstance {
		env.Helper()
		return got[[]store.SandboxInstance](env)(env.s.SandboxInstancesOf(env.ctx, store.System(), proxy, p))
	}
	same(env, page("p1", store.Page{}), want)
	same(env, page("p1", store.Page{Limit: 2, After: want[1].SessionID}), want[2:4])
	same(env, page("p1", store.Page{Limit: 2, Before: want[3].SessionID}), want[1:3])
	same(env, len(page("p2", store.Page{})), 0)

	moved := store.SandboxInstance{SessionID: want[0].SessionID, ProxyID: "p2", CreatedAt: at(8), UpdatedAt: at(9)}
	env.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(env.ctx, moved) })
	moved.CreatedAt = want[0].CreatedAt
	same(env, got[store.SandboxInstance](env)(env.s.SandboxInstance(env.ctx, store.As(alice()), moved.SessionID)), moved)
	same(env, page("p2", store.Page{}), []store.SandboxInstance{moved})
	same(env, len(page("p1", store.Page{})), 4)

	s := env.session(alice())
	beside := store.SandboxInstance{SessionID: "of-its-own", OfSession: s.ID, AgentID: "other", ProxyID: "p3", CreatedAt: at(1), UpdatedAt: at(2)}
	env.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(env.ctx, beside) })
	same(env, got[store.SandboxInstance](env)(env.s.SandboxInstance(env.ctx, store.As(alice()), beside.SessionID)), beside)
	same(env, page("p3", store.Page{}), []store.SandboxInstance{beside})

	late := want[2]
	late.UpdatedAt = at(5)
	env.tx(func(tx store.Tx) error { return tx.UpsertSandboxInstance(env.ctx, late) })
	env.tx(func(tx store.Tx) error { return tx.RevokeInstanceTokens(env.ctx, "p1", at(5)) })
	for _, i := range page("p1", store.Page{}) {
		same(env, len(i.TokenHash) > 0, i.SessionID == late.SessionID)
	}

	upsertProxy(env, store.Proxy{ID: "p1", Status: store.ProxyOffline})
	remove := func(id string) (found bool) {
		env.Helper()
		env.tx(func(tx store.Tx) (err error) {
			found, err = tx.DeleteProxy(env.ctx, id)
			return err
		})
		return found
	}
	same(env, []bool{remove("p1"), remove("p1")}, []bool{true, false})
	_, err := env.s.Proxy(env.ctx, store.System(), "p1")
	env.is(err, store.ErrNotFound)
	same(env, len(page("p1", store.Page{})), 0) // they go with it
	same(env, page("p2", store.Page{}), []store.SandboxInstance{moved})
}
