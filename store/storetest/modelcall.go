package storetest

import (
	"errors"

	"aqueduct/store"
)

// testModelCalls: a call is kept when it begins, ends once, and counts for its Turn from then on.
func testModelCalls(env *storeEnv) {
	session := env.session(alice())
	turn := env.turn(session.ID, store.TurnRunning)
	begun := func(model string) store.ModelCall {
		c := store.ModelCall{
			ID: env.id(), SessionID: session.ID, TurnID: turn.ID, AgentID: "a", Route: "chat/completions", Model: model, Status: store.ModelOpen, StartedAt: at(1),
		}
		env.tx(func(tx store.Tx) error { return tx.InsertModelCall(env.ctx, c) })
		return c
	}
	end := func(c store.ModelCall, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.EndModelCall(env.ctx, c)), want)
			return nil
		})
	}
	one, two, other, open := begun("m"), begun("m"), begun("n"), begun("m")
	same(env, got[store.ModelCall](env)(env.s.ModelCall(env.ctx, store.As(alice()), one.ID)), one)
	if _, err := env.s.ModelCall(env.ctx, store.As(carol()), one.ID); !errors.Is(err, store.ErrNotFound) {
		env.Errorf("another user reads a call: %v", err)
	}
	one.Upstream, one.Status, one.Tokens, one.Cost = "u", store.ModelDone, store.ModelTokens{Input: 10, Cached: 4, Output: 20, Reasoning: 5}, 7
	one.FirstTokenAt, one.EndedAt = at(2), at(3)
	two.Upstream, two.Status, two.Code, two.Tokens, two.EndedAt = "u", store.ModelCut, "client_left", store.ModelTokens{Input: 1, Output: 2, Estimated: true}, at(4)
	other.Upstream, other.Status, other.Tokens, other.Cost, other.EndedAt = "u", store.ModelDone, store.ModelTokens{Output: 3}, 1, at(4)
	for _, c := range []store.ModelCall{one, two, other} {
		end(c, true)
	}
	end(store.ModelCall{ID: one.ID, Status: store.ModelFailed, EndedAt: at(9)}, false)
	same(env, got[store.ModelCall](env)(env.s.ModelCall(env.ctx, store.System(), one.ID)), one)
	same(env, got[store.ModelCall](env)(env.s.ModelCall(env.ctx, store.System(), open.ID)), open)
	want := []store.ModelUsage{
		{Model: "m", Upstream: "u", Tokens: store.ModelTokens{Input: 11, Cached: 4, Output: 22, Reasoning: 5, Estimated: true}, Cost: 7},
		{Model: "n", Upstream: "u", Tokens: store.ModelTokens{Output: 3}, Cost: 1},
	}
	same(env, got[[]store.ModelUsage](env)(env.s.UsageOfTurn(env.ctx, store.System(), turn.ID)), want)
	same(env, len(got[[]store.ModelUsage](env)(env.s.UsageOfTurn(env.ctx, store.As(carol()), turn.ID))), 0)
	env.abandonedModelCalls(open)
}

// abandonedModelCalls: those of a replica that is fenced are found, with what they count for, until they end. open is of none.
func (env *storeEnv) abandonedModelCalls(open store.ModelCall) {
	abandoned := func(limit int) []store.ModelCall {
		env.Helper()
		return got[[]store.ModelCall](env)(env.s.AbandonedModelCalls(env.ctx, store.System(), limit))
	}
	begins := func(replica string) store.ModelCall {
		c := open
		c.ID, c.Replica, c.Tokens, c.Cost = env.id(), replica, store.ModelTokens{Input: 7, Estimated: true}, 3
		env.tx(func(tx store.Tx) error { return tx.InsertModelCall(env.ctx, c) })
		return c
	}
	begins(env.replica)
	lost := []store.ModelCall{begins("gone"), begins("gone")}
	same(env, abandoned(9), lost)
	same(env, abandoned(1), lost[:1])
	for _, c := range lost {
		c.Status, c.EndedAt = store.ModelCut, at(5)
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.EndModelCall(env.ctx, c)), true)
			return nil
		})
	}
	same(env, len(abandoned(9)), 0)
}
