package storetest

import (
	"errors"

	"aqueduct/store"
)

// testBudgets: what is counted is added up under its key, a Turn's goes with its Session, and days go when they are old.
func testBudgets(env *storeEnv) {
	session := env.session(alice())
	key := store.BudgetKey{Tenant: "acme", Budget: "user:tokens", Subject: "alice", Period: "2020-01-02"}
	add := func(uses ...store.BudgetUse) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			for _, b := range uses {
				if err := tx.AddToBudget(env.ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	gone := func(key store.BudgetKey) {
		env.Helper()
		if _, err := env.s.BudgetUse(env.ctx, store.System(), key); !errors.Is(err, store.ErrNotFound) {
			env.Errorf("%+v: %v", key, err)
		}
	}
	gone(key)
	next, other, turn := key, key, key
	next.Period, other.Tenant, turn.Period, turn.Subject = "2020-01-03", "other", "", "t1"
	add(store.BudgetUse{BudgetKey: key, Used: 3}, store.BudgetUse{BudgetKey: key, Used: 4, Added: 10}, store.BudgetUse{BudgetKey: next, Used: 1},
		store.BudgetUse{BudgetKey: other, Added: 2}, store.BudgetUse{BudgetKey: turn, SessionID: session.ID, Used: 5})
	for _, want := range []store.BudgetUse{
		{BudgetKey: key, Used: 7, Added: 10}, {BudgetKey: next, Used: 1}, {BudgetKey: other, Added: 2}, {BudgetKey: turn, SessionID: session.ID, Used: 5},
	} {
		same(env, got[store.BudgetUse](env)(env.s.BudgetUse(env.ctx, store.System(), want.BudgetKey)), want)
	}
	// Twelve of the largest additions at once stay a number that can be read, and nothing takes away from a budget.
	full := next
	full.Budget = "tenant:cost"
	for range 12 {
		add(store.BudgetUse{BudgetKey: full, Used: store.MostAmount, Added: 1_000_000_000_000_000_000})
	}
	add(store.BudgetUse{BudgetKey: full, Used: -5, Added: -5})
	same(env, got[store.BudgetUse](env)(env.s.BudgetUse(env.ctx, store.System(), full)), store.BudgetUse{BudgetKey: full, Used: store.MostAmount, Added: store.MostAmount})
	env.tx(func(tx store.Tx) error { return tx.DeleteBudgetsBefore(env.ctx, next.Period) })
	gone(key)
	gone(other)
	same(env, got[store.BudgetUse](env)(env.s.BudgetUse(env.ctx, store.System(), next)).Used, int64(1))
	same(env, got[store.BudgetUse](env)(env.s.BudgetUse(env.ctx, store.System(), turn)).Used, int64(5))
}
