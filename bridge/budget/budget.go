package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Budget bounds what models may be used for. At its limit a call of a model waits for a person, who may add to it: a long
// work is not lost for a number that was guessed before it began.
//
// What counts is what calls used that have ended. Calls that begin side by side may pass the limit together.
type Budget struct {
	Of    BudgetOf
	Unit  BudgetUnit
	Limit int64 // tokens, or millionths of Currency
	// Currency is that of costs.
	Currency string
}

// BudgetOf is whose calls count together.
type BudgetOf string

// Whose budgets there are. That of a run is for a person's prompt with all that it led to; the others are for a day, in UTC.
const (
	BudgetOfRun    BudgetOf = "run"
	BudgetOfUser   BudgetOf = "user"
	BudgetOfAgent  BudgetOf = "agent"
	BudgetOfTenant BudgetOf = "tenant"
)

// BudgetUnit is what is counted.
type BudgetUnit string

// The units.
const (
	BudgetTokens BudgetUnit = "tokens" // of input and output
	BudgetCost   BudgetUnit = "cost"   // by the price table
)

// CodeBudget refuses a call of a model whose budget is used up and was not added to.
const CodeBudget = "budget_exhausted"

// millionth is the unit of costs in rows.
const millionth = 1e6

// shown is an amount as people read it: tokens, or units of the currency.
func (b Budget) shown(amount int64) float64 {
	if b.Unit == BudgetCost {
		return float64(amount) / millionth
	}
	return float64(amount)
}

// amount is the reverse of shown.
func (b Budget) amount(shown float64) int64 {
	if b.Unit == BudgetCost {
		shown *= millionth
	}
	return int64(math.Round(min(shown, math.MaxInt64/2)))
}

// name is what is counted under.
func (b Budget) name() string { return string(b.Of) + ":" + string(b.Unit) }

// budgets counts and admits calls of models.
type budgets struct {
	list     []Budget
	currency string // of all costs
	store    store.Store
	tools    *tools.Service
	now      func() time.Time
}

// subjects are what a call counts for.
type subjects struct {
	tenant, user, agent string
	root, rootSession   string // the Turn of the person's prompt, and its Session
}

// subjectsOf reads what a call in a Session counts for.
func subjectsOf(ctx context.Context, r store.Reader, session store.Session, turnID, agent string) (subjects, error) {
	s := subjects{session.Tenant, session.User, agent, cmp.Or(session.RootTurnID, turnID), session.ID}
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
	case BudgetOfRun:
		u.Subject, u.Period, u.SessionID = s.root, "", s.rootSession
	case BudgetOfUser:
		u.Subject = s.user
	case BudgetOfAgent:
		u.Subject = s.agent
	case BudgetOfTenant:
	}
	return u
}

// extension are the arguments of tools.BudgetTool, as people read and edit them.
type extension struct {
	Budget   BudgetOf   `json:"budget"`
	Day      string     `json:"day,omitempty"`
	Unit     BudgetUnit `json:"unit"`
	Currency string     `json:"currency,omitempty"`
	Limit    float64    `json:"limit"` // which is reached
	Add      float64    `json:"add"`
}

// budgetSchema is the JSON Schema of an extension: what an approver may change it to. Less than the smallest amount that is
// counted, a token or a millionth of the currency, would add nothing, and the call would be at the limit that it asked about.
const budgetSchema = `{"type":"object","required":["budget","unit","add"],"properties":{"budget":{"enum":["run","user","agent","tenant"]},` +
	`"day":{"type":"string"},"unit":{"enum":["tokens","cost"]},"currency":{"type":"string"},"limit":{"type":"number"},` +
	`"add":{"type":"number","minimum":0.000001,"maximum":1000000000000,"description":"How much more may be used"}},"additionalProperties":false,` +
	`"if":{"properties":{"unit":{"const":"tokens"}}},"then":{"properties":{"add":{"type":"integer","minimum":1}}}}`

// BudgetTool is the tool that adds to a budget. A person is asked unless the policy file has a rule for its name.
func BudgetTool() store.Tool {
	return store.Tool{
		Name: tools.BudgetTool, Kind: store.KindServer, Source: store.ToolFromServer, Schema: json.RawMessage(budgetSchema),
		Policy:   json.RawMessage(`{"risk":"medium","verdict":"require_approval","may_edit":true}`),
		Metadata: mustJSON(map[string]string{"description": "Adds to a budget for models."}),
	}
}

// key is the idempotency key of the call that asks. It is ours, where the arguments may be edited: so what is added to is read
// from it, and of the arguments only how much.
func (b Budget) key(day string, limit int64) string {
	return fmt.Sprintf("%s:%s:%s:%d", tools.BudgetTool, b.name(), day, limit)
}

// budgetOfKey reads what key wrote.
func budgetOfKey(key string) (b Budget, day string) {
	parts := strings.SplitN(key, ":", 5)
	if len(parts) < 4 {
		return b, ""
	}
	return Budget{Of: BudgetOf(parts[1]), Unit: BudgetUnit(parts[2])}, parts[3]
}

// text is an amount with its unit.
func (b Budget) text(amount int64) string {
	if b.Unit == BudgetCost {
		return fmt.Sprintf("%.2f %s", b.shown(amount), b.Currency)
	}
	return fmt.Sprintf("%d tokens", amount)
}

// keptDays is how long the counts of days are kept: a day may end while a call of it is under way.
const keptDays = 2

// count adds what a call used to every budget, in the transaction that keeps its end.
func (a *budgets) count(ctx context.Context, tx store.Tx, c store.ModelCall) error {
	if len(a.list) == 0 {
		return nil
	}
	session, err := tx.Session(ctx, store.System(), c.SessionID)
	if err != nil {
		return err
	}
	s, err := subjectsOf(ctx, tx, session, c.TurnID, c.AgentID)
	if err != nil {
		return err
	}
	now := a.now()
	for _, b := range a.list {
		use := b.use(s, now)
		if use.Used = c.Cost; b.Unit == BudgetTokens {
			use.Used = c.Tokens.Input + c.Tokens.Output
		}
		if err := tx.AddToBudget(ctx, use); err != nil {
			return err
		}
	}
	return tx.DeleteBudgetsBefore(ctx, now.UTC().AddDate(0, 0, -keptDays).Format(time.DateOnly))
}

// BudgetRuntime executes tools.BudgetTool: it adds what was approved.
type BudgetRuntime struct{ Store store.Store }

// Execute implements tools.Runtime. What is added is kept in one transaction, whose failure has added nothing; one whose
// outcome is unknown is asked about like any call's.
func (r BudgetRuntime) Execute(ctx context.Context, d tools.Dispatch) (json.RawMessage, *fault.Error) {
	var e extension
	b, day := budgetOfKey(d.Call.IdempotencyKey)
	if err := json.Unmarshal(d.Call.Args, &e); err != nil || e.Budget != b.Of || e.Unit != b.Unit || e.Day != day {
		return nil, fault.New(tools.CodeInvalidArgs, "Only how much is added to a budget can be changed.")
	}
	if b.amount(e.Add) <= 0 { // approved under the schema of an earlier version
		return nil, fault.New(tools.CodeInvalidArgs, "What is added to a budget is at least a token, or a millionth of the currency.")
	}
	err := r.Store.InTx(ctx, func(tx store.Tx) error {
		session, err := tx.Session(ctx, store.System(), d.Call.SessionID)
		if err != nil {
			return err
		}
		turn, err := tx.Turn(ctx, store.System(), d.Call.TurnID)
		if err != nil {
			return err
		}
		s, err := subjectsOf(ctx, tx, session, turn.ID, turn.AgentID)
		if err != nil {
			return err
		}
		use := b.use(s, time.Now())
		use.Period, use.Added = day, b.amount(e.Add) // approved after midnight, it is still for the day that was asked about
		return tx.AddToBudget(ctx, use)
	})
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		return nil, &fault.Error{Code: tools.CodeUnknownOutcome, Message: "It is not known whether the budget was added to.", Cause: err}
	case err != nil:
		return nil, &fault.Error{Code: tools.CodeUnreachable, Message: "The budget could not be added to.", Cause: err}
	}
	return mustJSON(map[string]float64{"added": e.Add}), nil
}
