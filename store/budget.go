package store

import "context"

// BudgetKey is what is counted for a budget.
type BudgetKey struct {
	Tenant  string
	Budget  string // what it is of, and its unit: "run:tokens"
	Subject string // the Turn, user or agent; "" for all of the tenant
	Period  string // the day, YYYY-MM-DD in UTC; "" for a Turn's
}

// BudgetUse is what was used of a budget, and what people have added to it. It is counted apart from ModelCalls: those of a
// thread are deleted with it, which must not give its user a new day.
type BudgetUse struct {
	BudgetKey
	SessionID string // of a Turn's, which goes with its Session
	Used      int64  // tokens, or millionths of the price table's currency
	Added     int64
}

// MostAmount is the largest sum that is kept. Two of them can be added without an overflow.
const MostAmount int64 = 1 << 61

// BudgetReader reads what was used of budgets. They belong to the installation: only the System sees them.
type BudgetReader interface {
	// BudgetUse is ErrNotFound while nothing was counted.
	BudgetUse(ctx context.Context, in Scope, key BudgetKey) (BudgetUse, error)
}

// BudgetTx counts.
type BudgetTx interface {
	// AddToBudget adds Used and Added to what the key has, up to MostAmount.
	AddToBudget(ctx context.Context, b BudgetUse) error
	// DeleteBudgetsBefore deletes what was counted on days before one.
	DeleteBudgetsBefore(ctx context.Context, day string) error
}
