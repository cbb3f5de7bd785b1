package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Budgets are counted for the installation. Who asks has to be the server itself.
	budgetReader struct{ *conn }

	// A row is made by the first use and only ever added to, so two replicas that count at once lose nothing.
	budgetTx struct{ *conn }
)

func scanBudgetUse(at row) (store.BudgetUse, error) {
	var b store.BudgetUse
	err := at.Scan(&b.Tenant, &b.Budget, &b.Subject, &b.Period, &b.SessionID, &b.Used, &b.Added)
	return b, err
}

// BudgetUse implements store.BudgetReader.
func (r *budgetReader) BudgetUse(ctx context.Context, in store.Scope, key store.BudgetKey) (store.BudgetUse, error) {
	if !in.All() {
		return store.BudgetUse{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanBudgetUse, `SELECT tenant, budget, subject, period, session_id, used, added FROM budgets
		WHERE tenant = $1 AND budget = $2 AND subject = $3 AND period = $4`, key.Tenant, key.Budget, key.Subject, key.Period)
}

// AddToBudget implements store.BudgetTx. A sum beyond store.MostAmount stays there: PostgreSQL would refuse it, and SQLite keep a
// fraction that cannot be read.
func (t *budgetTx) AddToBudget(ctx context.Context, b store.BudgetUse) error {
	return t.insert(ctx, `INSERT INTO budgets (tenant, budget, subject, period, session_id, used, added)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, budget, subject, period)
		DO UPDATE SET used = CASE WHEN budgets.used > $8 - excluded.used THEN $8 ELSE budgets.used + excluded.used END,
			added = CASE WHEN budgets.added > $8 - excluded.added THEN $8 ELSE budgets.added + excluded.added END`,
		b.Tenant, b.Budget, b.Subject, b.Period, b.SessionID, amount(b.Used), amount(b.Added), store.MostAmount)
}

// amount is what is added: never less than nothing.
func amount(n int64) int64 { return min(max(n, 0), store.MostAmount) }

// DeleteBudgetsBefore implements store.BudgetTx. Those of Turns have no day, and go with their Session. A day is
// YYYY-MM-DD, so texts compare as days do.
func (t *budgetTx) DeleteBudgetsBefore(ctx context.Context, day string) error {
	_, err := t.exec(ctx, "DELETE FROM budgets WHERE period > '' AND period < $1", day)
	return err
}
