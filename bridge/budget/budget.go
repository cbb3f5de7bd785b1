// Package budget bounds what models may be used for. Calls of models are counted when they end, and admitted before they begin:
// one that meets a budget that is used up waits for a person, who is asked by the tool that adds to a budget. Everything is kept in
// rows, so that all replicas count together.
package budget

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/store"
)

// Budget bounds what models may be used for. At its limit a call of a model waits for a person, who may add to it: a long
// work is not lost for a number that was guessed before it began.
//
// What counts is what calls used that have ended. Calls that begin side by side may pass the limit together.
type Budget struct {
	Of    Of
	Unit  Unit
	Limit int64 // tokens, or millionths of Currency
	// Currency is that of costs.
	Currency string
	// Approvers may add to it besides the role admin, as in policy files. The person whose prompt it is may add to a run's, where
	// none is named.
	Approvers policy.Approvers
	// MostAdded bounds all that is added to it in its day, or to a run's in all.
	MostAdded int64
}

// Admins add to the budgets of a day: of a limit that holds for a person, that person alone is not asked.
const Admins = "role:" + store.RoleAdmin

// Of is whose calls count together.
type Of string

// Whose budgets there are. That of a run is for a person's prompt with all that it led to; the others are for a day, in UTC.
const (
	OfRun    Of = "run"
	OfUser   Of = "user"
	OfAgent  Of = "agent"
	OfTenant Of = "tenant"
)

// Unit is what is counted.
type Unit string

// The units.
const (
	Tokens Unit = "tokens" // of input and output
	Cost   Unit = "cost"   // by the price table
)

// CodeExhausted refuses a call of a model whose budget is used up and was not added to.
const CodeExhausted = "budget_exhausted"

// millionth is the unit of costs in rows.
const millionth = 1e6

// shown is an amount as people read it: tokens, or units of the currency.
func (b Budget) shown(amount int64) float64 {
	if b.Unit == Cost {
		return float64(amount) / millionth
	}
	return float64(amount)
}

// amount is the reverse of shown.
func (b Budget) amount(shown float64) int64 {
	if b.Unit == Cost {
		shown *= millionth
	}
	return int64(math.Round(min(shown, float64(store.MostAmount))))
}

// amountOf keeps a sum of two within an int64.
func amountOf(n int64) int64 { return min(max(n, 0), store.MostAmount) }

// name is what is counted under.
func (b Budget) name() string { return string(b.Of) + ":" + string(b.Unit) }

// Keeper counts and admits the calls of models of this server. It holds no state besides the rows of the store.
type Keeper struct {
	list  []Budget
	store store.Store
	tools *tools.Service
}

// New makes the Keeper of a list of Budgets. People are asked by the tools, of which Tool has to be one.
func New(list []Budget, s store.Store, t *tools.Service) *Keeper {
	return &Keeper{list: list, store: s, tools: t}
}

// subjects are what a call counts for.
type subjects struct {
	tenant, user, agent string
	root, rootSession   string // the Turn of the person's prompt, and its Session
}

// subjectsOf reads what a call in a Session counts for. user is who prompted the Turn.
func subjectsOf(ctx context.Context, r store.Reader, session store.Session, user, turnID, agent string) (subjects, error) {
	s := subjects{session.Tenant, user, agent, cmp.Or(session.RootTurnID, turnID), session.ID}
	if session.RootTurnID == "" {
		return s, nil
	}
	root, err := r.Turn(ctx, store.System(), session.RootTurnID)
	s.rootSession = root.SessionID
	return s, err
}

// use is what a Budget counts under for a call, with nothing in it.
func (b Budget) use(s subjects, now time.Time) store.BudgetUse {
	u := store.BudgetUse{BudgetKey: store.BudgetKey{Tenant: s.tenant, Budget: b.name(), Period: now.UTC().Format(time.DateOnly)}}
	switch b.Of {
	case OfRun:
		u.Subject, u.Period, u.SessionID = s.root, "", s.rootSession
	case OfUser:
		u.Subject = s.user
	case OfAgent:
		u.Subject = s.agent
	case OfTenant:
	}
	return u
}

// text is an amount with its unit.
func (b Budget) text(amount int64) string {
	if b.Unit == Cost {
		return fmt.Sprintf("%.2f %s", b.shown(amount), b.Currency)
	}
	return fmt.Sprintf("%d tokens", amount)
}

// keptDays is how long the counts of days are kept: a day may end while a call of it is under way.
const keptDays = 2

// Count adds what a call used to every Budget, in the transaction that keeps its end.
func (k *Keeper) Count(ctx context.Context, tx store.Tx, c store.ModelCall) error {
	session, err := tx.Session(ctx, store.System(), c.SessionID)
	if err != nil {
		return err
	}
	turn, err := tx.Turn(ctx, store.System(), c.TurnID)
	if err != nil {
		return err
	}
	s, err := subjectsOf(ctx, tx, session, turn.Prompter(session), c.TurnID, c.AgentID)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, b := range k.list {
		use := b.use(s, now)
		if use.Used = c.Cost; b.Unit == Tokens {
			use.Used = amountOf(c.Tokens.Input) + amountOf(c.Tokens.Output)
		}
		if err := tx.AddToBudget(ctx, use); err != nil {
			return err
		}
	}
	return tx.DeleteBudgetsBefore(ctx, now.UTC().AddDate(0, 0, -keptDays).Format(time.DateOnly))
}
