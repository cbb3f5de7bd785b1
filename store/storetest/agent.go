package storetest

import (
	"time"

	"aqueduct/store"
)

// testAgents: an id belongs to who claims it first, and only what was registered is changed.
func testAgents(env *storeEnv) {
	full := store.Agent{
		ID: "planner", Tenant: "acme", Owner: "alice", Source: store.AgentFromAPI, Protocol: store.AgentHTTP, Name: "The planner",
		Endpoint: "https://x/y", Capabilities: []byte(`{"z":1, "a":[2]}`), AuthKID: "k1", Auth: []byte{0, 1, 255},
		LastHeartbeatAt: at(3), RegisteredAt: at(1), UpdatedAt: at(2),
	}
	claim := func(a store.Agent, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.ClaimAgent(env.ctx, a)), want)
			return nil
		})
	}
	read := func(in store.Scope) (store.Agent, error) { return env.s.Agent(env.ctx, in, full.ID) }
	claim(full, true)
	claim(store.Agent{ID: full.ID, Source: store.AgentFromProxy, Protocol: store.AgentACP, RegisteredAt: at(5), UpdatedAt: at(5)}, false)
	for _, in := range []store.Scope{store.As(alice()), store.As(bob()), store.System()} {
		same(env, got[store.Agent](env)(read(in)), full)
	}
	_, err := read(store.As(carol()))
	env.is(err, store.ErrNotFound)

	for in, want := range map[store.Scope]int{store.As(alice()): 1, store.As(bob()): 0, store.Within("acme"): 1, store.Within("globex"): 0, store.System(): 1} {
		same(env, got[int](env)(env.s.CountAgents(env.ctx, in, 10)), want)
	}

	changed := store.Agent{ID: full.ID, Source: store.AgentFromConfig, Protocol: store.AgentHTTP, RegisteredAt: at(8), UpdatedAt: at(9), LastHeartbeatAt: at(8)}
	beat := at(10).Add(time.Millisecond)
	env.tx(func(tx store.Tx) error {
		same(env, got[bool](env)(tx.UpdateAgent(env.ctx, changed)), true) // a write is a whole row
		same(env, got[bool](env)(tx.UpdateAgent(env.ctx, store.Agent{ID: "nobody"})), false)
		same(env, got[bool](env)(tx.BeatAgent(env.ctx, full.ID, beat)), true)
		same(env, got[bool](env)(tx.BeatAgent(env.ctx, "nobody", beat)), false)
		return nil
	})
	changed.RegisteredAt, changed.LastHeartbeatAt = at(1), beat
	same(env, got[store.Agent](env)(read(store.As(carol()))), changed) // it is everybody's now
	for _, step := range []struct {
		source store.AgentSource
		want   bool
	}{{store.AgentFromAPI, false}, {store.AgentFromConfig, true}, {store.AgentFromConfig, false}} {
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.DeleteAgent(env.ctx, full.ID, step.source)), step.want)
			return nil
		})
	}
	claim(full, true) // the id is free again
}

// testAgentListing: a Scope lists what it sees, and the stamp changes with it.
func testAgentListing(env *storeEnv) {
	stamp := func() store.AgentsStamp {
		return got[store.AgentsStamp](env)(env.s.AgentsStamp(env.ctx, store.System()))
	}
	begun := stamp()
	for i, a := range []store.Agent{{ID: "b"}, {ID: "c", Tenant: "acme"}, {ID: "a", Tenant: "acme"}, {ID: "d", Tenant: "other"}} {
		a.Source, a.Protocol, a.RegisteredAt, a.UpdatedAt = store.AgentFromAPI, store.AgentHTTP, at(int64(i+1)), at(int64(i+1))
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.ClaimAgent(env.ctx, a)), true)
			return nil
		})
	}
	same(env, stamp()-begun, store.AgentsStamp(4))
	listed := func(in store.Scope, p store.Page) []string {
		env.Helper()
		return idsOf(got[[]store.Agent](env)(env.s.Agents(env.ctx, in, p)), func(a store.Agent) string { return a.ID })
	}
	for _, in := range []store.Scope{store.As(alice()), store.Within("acme")} {
		same(env, listed(in, store.Page{}), []string{"a", "b", "c"})
		same(env, listed(in, store.Page{After: "a", Limit: 1}), []string{"b"})
		same(env, listed(in, store.Page{Before: "c", Limit: 1}), []string{"b"})
	}
	same(env, listed(store.As(carol()), store.Page{}), []string{"b", "d"})
	same(env, listed(store.System(), store.Page{}), []string{"a", "b", "c", "d"})
	before := stamp()
	same(env, stamp(), before)
	env.tx(func(tx store.Tx) error {
		same(env, got[bool](env)(tx.BeatAgent(env.ctx, "b", at(50))), true)
		return nil
	})
	same(env, stamp(), before)
	for what, change := range map[string]func(tx store.Tx) (bool, error){
		"changed": func(tx store.Tx) (bool, error) {
			return tx.UpdateAgent(env.ctx, store.Agent{ID: "c", Source: store.AgentFromAPI, Protocol: store.AgentHTTP, UpdatedAt: at(1)})
		},
		"removed": func(tx store.Tx) (bool, error) { return tx.DeleteAgent(env.ctx, "b", store.AgentFromAPI) },
		"added": func(tx store.Tx) (bool, error) {
			return tx.ClaimAgent(env.ctx, store.Agent{ID: "e", Source: store.AgentFromAPI, Protocol: store.AgentHTTP, RegisteredAt: at(1), UpdatedAt: at(1)})
		},
	} {
		before := stamp()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(change(tx)), true)
			return nil
		})
		if stamp() == before {
			env.Errorf("the stamp of the directory stayed when an agent was %s", what)
		}
	}
}
