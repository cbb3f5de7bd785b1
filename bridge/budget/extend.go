package budget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// extension are the arguments of tools.BudgetTool, as people read and edit them.
type extension struct {
	Budget   Of      `json:"budget"`
	Day      string  `json:"day,omitempty"`
	Unit     Unit    `json:"unit"`
	Currency string  `json:"currency,omitempty"`
	Limit    float64 `json:"limit"` // which is reached
	Add      float64 `json:"add"`
}

// extensionSchema is the JSON Schema of an extension: what an approver may change it to. Less than the smallest amount that is
// counted, a token or a millionth of the currency, would add nothing, and the call would be at the limit that it asked about.
const extensionSchema = `{"type":"object","required":["budget","unit","add"],"properties":{"budget":{"enum":["run","user","agent","tenant"]},` +
	`"day":{"type":"string"},"unit":{"enum":["tokens","cost"]},"currency":{"type":"string"},"limit":{"type":"number"},` +
	`"add":{"type":"number","minimum":0.000001,"maximum":1000000000000,"description":"How much more may be used"}},"additionalProperties":false,` +
	`"if":{"properties":{"unit":{"const":"tokens"}}},"then":{"properties":{"add":{"type":"integer","minimum":1}}}}`

// Tool is the tool that adds to a budget, as tools.Config.Own has it; Runtime executes it. A person is asked unless the policy file has a rule for its name.
func Tool() store.Tool {
	return store.Tool{
		Name: tools.BudgetTool, Kind: store.KindServer, Source: store.ToolFromServer, Schema: json.RawMessage(extensionSchema),
		Policy:   json.RawMessage(`{"risk":"medium","verdict":"require_approval","may_edit":true}`),
		Metadata: mustJSON(map[string]string{"description": "Adds to a budget for models."}),
	}
}

// key is the idempotency key of the call that asks. It is ours, where the arguments may be edited: so what is added to is read
// from it, and of the arguments only how much.
func (b Budget) key(day string, limit int64) string {
	return fmt.Sprintf("%s:%s:%s:%d", tools.BudgetTool, b.name(), day, limit)
}

// parseKey reads what key wrote.
func parseKey(key string) (b Budget, day string) {
	parts := strings.SplitN(key, ":", 5)
	if len(parts) < 4 {
		return b, ""
	}
	return Budget{Of: Of(parts[1]), Unit: Unit(parts[2])}, parts[3]
}

// Runtime executes tools.BudgetTool: it adds what was approved to the row of the budget in Store.
type Runtime struct {
	Store store.Store
	List  []Budget // those of New
}

// Verdict is what holds for a call of tools.BudgetTool, whatever the policy says, as tools.Config.OwnVerdict has it. No answer to
// it stands for another one. Of a budget that counts for more than one prompt a person is always asked: the role admin, the
// approvers that the models file names, or those of the rule in the policy file.
func (r Runtime) Verdict(v policy.Verdict, args json.RawMessage) policy.Verdict {
	v.Grant, v.Always = "", policy.LimitNone
	var e extension
	if json.Unmarshal(args, &e) != nil {
		return v // the arguments are ours, or an edit that Execute refuses
	}
	b, _ := r.of(Budget{Of: e.Budget, Unit: e.Unit})
	if len(v.Approvers) == 0 {
		v.Approvers = b.Approvers
	}
	if e.Budget == OfRun {
		return v
	}
	if v.Action == policy.Allow {
		v.Action = policy.Ask
	}
	if !slices.Contains(v.Approvers, Admins) {
		v.Approvers = append(slices.Clone(v.Approvers), Admins)
	}
	return v
}

// of finds the budget of the file that another one names.
func (r Runtime) of(named Budget) (Budget, bool) {
	for _, b := range r.List {
		if b.name() == named.name() {
			return b, true
		}
	}
	return Budget{}, false
}

// errTooMuch ends the transaction that would add more than the models file allows.
var errTooMuch = errors.New("budget: more than may be added")

// Execute implements tools.Runtime. What is added is kept in one transaction, whose failure has added nothing; one whose
// outcome is unknown is asked about like any call's.
func (r Runtime) Execute(ctx context.Context, d tools.Dispatch) (json.RawMessage, *fault.Error) {
	var e extension
	b, day := parseKey(d.Call.IdempotencyKey)
	if err := json.Unmarshal(d.Call.Args, &e); err != nil || e.Budget != b.Of || e.Unit != b.Unit || e.Day != day {
		return nil, fault.New(tools.CodeInvalidArgs, "Only how much is added to a budget can be changed.")
	}
	most, known := r.of(b)
	if !known {
		return nil, fault.New(tools.CodeInvalidArgs, "The models file has no such budget any more.")
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
		s, err := subjectsOf(ctx, tx, session, turn.Prompter(session), turn.ID, turn.AgentID)
		if err != nil {
			return err
		}
		use := b.use(s, time.Now())
		use.Period, use.Added = day, b.amount(e.Add) // approved after midnight, it is still for the day that was asked about
		if err := tx.AddToBudget(ctx, use); err != nil {
			return err
		}
		// The row is this transaction's until it ends, so what is read is the sum.
		if now, err := tx.BudgetUse(ctx, store.System(), use.BudgetKey); err != nil || now.Added > most.MostAdded {
			return cmp.Or(err, errTooMuch)
		}
		return nil
	})
	switch {
	case errors.Is(err, errTooMuch):
		return nil, fault.New(tools.CodeInvalidArgs, fmt.Sprintf("At most %s may be added to this budget.", most.text(most.MostAdded)))
	case errors.Is(err, store.ErrUnknownOutcome):
		return nil, &fault.Error{Code: tools.CodeUnknownOutcome, Message: "It is not known whether the budget was added to.", Cause: err}
	case err != nil:
		return nil, &fault.Error{Code: tools.CodeUnreachable, Message: "The budget could not be added to.", Cause: err}
	}
	return mustJSON(map[string]float64{"added": e.Add}), nil
}

// mustJSON encodes values of this package, which always can be encoded.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("budget: " + err.Error())
	}
	return raw
}
