package budget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// admission is a call of a model on its way through the budgets.
type admission struct {
	*Keeper
	subjects
	from tools.Caller
	// waits is called before the call begins to wait for a person, who may take days. An error of it refuses the call.
	waits func() error
}

// Admit returns when each Budget has something left for a call. waits is called each time before a person is asked, who may take
// days; an error of it refuses the call. The error is a *fault.Error with CodeExhausted where a person did not add to a budget that
// is used up, and another one where no person can be asked now.
func (k *Keeper) Admit(ctx context.Context, from tools.Caller, waits func() error) error {
	s, err := subjectsOf(ctx, k.store, from.Session, from.By.User, from.TurnID, from.Session.AgentID)
	if err != nil {
		return err
	}
	in := admission{k, s, from, waits}
	for _, b := range k.list {
		if err := in.through(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// standing is how a Budget stands: what was used, the limit with what people added, and of which day both are.
type standing struct {
	use   store.BudgetUse
	limit int64
	added int64
}

// sameLimit reports whether nothing was added since, nor has another day begun.
func (s standing) sameLimit(now standing) bool {
	return s.limit == now.limit && s.use.Period == now.use.Period
}

func (a *admission) standing(ctx context.Context, b Budget) (standing, error) {
	use := b.use(a.subjects, time.Now())
	kept, err := a.store.BudgetUse(ctx, store.System(), use.BudgetKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return standing{}, err
	}
	use.Used = kept.Used
	return standing{use, amountOf(b.Limit) + amountOf(kept.Added), kept.Added}, nil
}

// through returns when a Budget has something left.
//
// The call waits for a question, and at each look for the budget itself: there may be several questions about one, of users'
// or agents' other prompts, and what is added by any of them is for all. So what became of its own question decides only
// while the limit is the one that was asked about: a question that another one has overtaken may be rejected after it.
func (a *admission) through(ctx context.Context, b Budget) error {
	for {
		before, err := a.standing(ctx, b)
		if err != nil || before.use.Used < before.limit {
			return err
		}
		if before.added >= b.MostAdded {
			return fault.New(CodeExhausted, fmt.Sprintf("The budget of the %s for models is used up: %s. The models file lets nobody add more than %s to it.",
				b.Of, b.text(before.limit), b.text(b.MostAdded)))
		}
		call, err := a.asked(ctx, b, before)
		if err != nil {
			return err
		}
		now, err := a.standing(ctx, b)
		if err != nil {
			return err
		}
		if before.sameLimit(now) {
			return fault.New(CodeExhausted, fmt.Sprintf("The budget of the %s for models is used up: %s. It was not added to (%s).",
				b.Of, b.text(before.limit), cmp.Or(call.ErrorCode, string(call.Status))))
		}
	}
}

// looksEvery is how often a call that waits looks at the budget.
const looksEvery = 2 * time.Second

// asked has a person asked, and returns when that is settled, or when the budget has another limit: then the question is
// withdrawn, for all that wait for it, since no answer to it is needed.
func (a *admission) asked(ctx context.Context, b Budget, before standing) (store.ToolCall, error) {
	call, err := a.ask(ctx, b, before)
	for err == nil && !call.Status.Terminal() {
		call, err = a.tools.Wait(ctx, store.System(), call.ID, looksEvery)
		if err != nil || call.Status.Terminal() {
			break
		}
		now, err := a.standing(ctx, b)
		if err != nil {
			return call, err
		}
		if !before.sameLimit(now) {
			return call, a.tools.Withdraw(ctx, call, approval.NotNeeded("The budget was added to elsewhere, or is another day's."))
		}
	}
	return call, err
}

// ask asks whether the budget may grow by what it had at first. It is a call of a tool, so everything that holds for calls
// does: policy, approvers, edited arguments, the audit, the chat. All calls of models that reach the same limit in a Turn get
// one question; one that was refused stays refused there.
func (a *admission) ask(ctx context.Context, b Budget, at standing) (store.ToolCall, error) {
	if err := a.waits(); err != nil {
		return store.ToolCall{}, err
	}
	req, err := a.request(ctx, b)
	if err != nil {
		return store.ToolCall{}, err
	}
	req.Args = mustJSON(extension{b.Of, at.use.Period, b.Unit, b.Currency, b.shown(at.limit), b.shown(min(b.Limit, b.MostAdded-at.added))})
	req.Key = b.key(at.use.Period, at.limit)
	call, err := a.tools.Invoke(ctx, req)
	if fault.CodeOf(err) == tools.CodeKeyConflict { // asked before, and edited since: the key is ours, and names this question
		call, err = a.store.ToolCallByKey(ctx, store.System(), req.TurnID, req.Key)
	}
	if err != nil {
		return call, notAsked(b, at.limit, err)
	}
	if req.TurnID != a.from.TurnID {
		err = a.pause(ctx)
	}
	return call, err
}

// request is where a person is asked: in the chat of the person whose prompt it is, once for all agents that it led to. An
// agent's budget is asked about in its own Turn, whose question shows whose it is.
func (a *admission) request(ctx context.Context, b Budget) (tools.Request, error) {
	req := tools.Request{
		Caller: a.from, Name: tools.BudgetTool,
		Declared: func(context.Context, store.Reader) (map[string]json.RawMessage, error) { return nil, nil },
	}
	if a.root == a.from.TurnID || b.Of == OfAgent {
		return req, nil
	}
	turn, err := a.store.Turn(ctx, store.System(), a.root)
	if err != nil {
		return req, err
	}
	session, err := a.store.Session(ctx, store.System(), turn.SessionID)
	if err != nil {
		return req, err
	}
	req.Caller = tools.CallerOf(session, turn)
	return req, nil
}

// pause has the owner of a called agent's Session see that it waits for a person, though its own Turn has no question: the
// time is not the agent's.
func (a *admission) pause(ctx context.Context) error {
	return a.store.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertCommand(ctx, approval.Look(a.from.Session.ID, a.from.TurnID))
	})
}

// codeTooManyQuestions refuses a call whose budget is used up and about which no person can be asked now.
const codeTooManyQuestions = "too_many_questions"

// notAsked is why no person could be asked, in codes of the model proxy: those of tools are for who calls tools.
func notAsked(b Budget, limit int64, err error) error {
	text := fmt.Sprintf("The budget of the %s for models is used up: %s. ", b.Of, b.text(limit))
	switch {
	case errors.Is(err, tools.ErrTooManyQuestions):
		return &fault.Error{Code: codeTooManyQuestions, Message: text + "Too many questions are open to ask about it.", Cause: err}
	case fault.CodeOf(err) == tools.CodeBusy:
		return &fault.Error{Code: codeTooManyQuestions, Message: text + "Too many tools are running to add to it.", Cause: err}
	case fault.CodeOf(err) != "":
		return &fault.Error{Code: CodeExhausted, Message: text + "Nobody can be asked (" + fault.CodeOf(err) + ").", Cause: err}
	}
	return err
}
