package bridge

import (
	"context"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// ModelCalls keeps what Agents have of models through this server: each call when it begins and when it ends, on the trace
// of the Turn that the Agent's token belongs to.
type ModelCalls struct {
	store   store.Store
	agents  *AgentRequests
	budgets Budgets // nil: nothing is bounded
	replica string
	// currency is that of all costs.
	currency string
	logger   *slog.Logger
}

// Budgets bound what models may be used for; bridge/budget has them.
type Budgets interface {
	// Admit returns when a call of a model may begin, or with a *fault.Error that refuses it. Where a person has to be asked first,
	// waits is called before, whose error refuses the call too.
	Admit(ctx context.Context, from tools.Caller, waits func() error) error
	// Count adds what a call used, in the transaction that keeps its end.
	Count(ctx context.Context, tx store.Tx, c store.ModelCall) error
}

// ModelRequest is a call of a model that begins.
type ModelRequest struct {
	Route, Model string
	Stream       bool
	// Tokens and Cost are what the call counts with when its server is killed in the middle of it.
	Tokens store.ModelTokens
	Cost   int64
	// Waits is called before the call begins to wait for a person, where a budget is used up. An error of it refuses the call.
	Waits func() error
}

// Begin keeps a call of the Agent that sends the token. It is committed before the upstream is called, so that no call is
// paid for that is not on record. The span is for the upstream. Where a budget is used up it waits for a person; the error has
// budget.CodeExhausted when that one refuses. It is ErrRunToken for a token that is not good.
func (m *ModelCalls) Begin(ctx context.Context, token string, req ModelRequest) (store.ModelCall, trace.Context, error) {
	from, err := m.agents.callSite(ctx, token)
	if err != nil {
		return store.ModelCall{}, trace.Context{}, err
	}
	if err := m.admit(ctx, from, req.Waits); err != nil {
		return store.ModelCall{}, trace.Context{}, err
	}
	span := from.Trace.Under()
	c := store.ModelCall{
		ID: newID(), SessionID: from.Session.ID, TurnID: from.TurnID, AgentID: from.Session.AgentID, Route: req.Route, Model: req.Model,
		Status: store.ModelOpen, StartedAt: time.Now().Truncate(time.Millisecond), Replica: m.replica, Tokens: req.Tokens, Cost: req.Cost,
	}
	return c, span, m.store.InTx(ctx, func(tx store.Tx) error {
		if err := tx.InsertModelCall(ctx, c); err != nil {
			return err
		}
		return tx.InsertRecord(ctx, trace.ModelCallStarted(c, req.Stream, span.Traceparent()))
	})
}

// admit lets a call through the budgets. A person may take days, and the question may be the caller's of the Agent: where the Turn
// has ended meanwhile its token is good for nothing, and nothing is paid for it.
func (m *ModelCalls) admit(ctx context.Context, from tools.Caller, waits func() error) error {
	if m.budgets == nil {
		return nil
	}
	waited := false
	err := m.budgets.Admit(ctx, from, func() error {
		waited = true
		return waits()
	})
	if err != nil || !waited {
		return err
	}
	turn, err := m.store.Turn(ctx, store.System(), from.TurnID)
	if err == nil && turn.Status.Terminal() {
		err = ErrRunToken
	}
	return err
}

// endWait bounds how long the end of a call is tried to be kept while the store is away: who waits for it holds a
// connection, and the server may be on its way out.
const endWait = 10 * time.Second

// End keeps the end of a call. It does so also when the caller has left: what was paid for has to be on record. A second end
// of the same call changes nothing, so a transaction whose outcome is unknown can be tried again.
func (m *ModelCalls) End(ctx context.Context, c store.ModelCall, more trace.ModelEnded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	if err := retry.While(ctx, isAway, func() error { return m.end(ctx, c, more) }); err != nil {
		m.logger.Error("the end of a model call is not on record", slog.String("request_id", c.ID), slog.Any("error", err))
	}
}

// end keeps an end, what it counts for budgets, and its Record, if it is the first one.
func (m *ModelCalls) end(ctx context.Context, c store.ModelCall, more trace.ModelEnded) error {
	return m.store.InTx(ctx, func(tx store.Tx) error {
		first, err := tx.EndModelCall(ctx, c)
		if err != nil || !first {
			return err
		}
		if m.budgets != nil {
			if err := m.budgets.Count(ctx, tx, c); err != nil {
				return err
			}
		}
		return tx.InsertRecord(ctx, trace.ModelCallEnded(c, more))
	})
}

const (
	// codeServerGone is of calls whose server was killed.
	codeServerGone = "server_gone"
	// abandonedMost is how many of them are read at once.
	abandonedMost = 100
)

// endAbandoned ends the calls that were under way in replicas that are gone, with what they count for as they began: the
// upstream was paid, and it is not known how far it came. All replicas may look at once; the first end counts. A call that cannot
// be ended is left to the next look, so that it does not keep the others, or the Sessions, waiting.
func (m *ModelCalls) endAbandoned(ctx context.Context) error {
	for {
		calls, err := m.store.AbandonedModelCalls(ctx, store.System(), abandonedMost)
		if err != nil {
			return err
		}
		failed := false
		for _, c := range calls {
			c.Status, c.Code, c.EndedAt = store.ModelCut, codeServerGone, time.Now().Truncate(time.Millisecond)
			if err := m.end(ctx, c, trace.ModelEnded{Currency: m.currency}); err != nil {
				failed = true
				m.logger.Warn("a model call of a server that is gone was not ended", slog.String("request_id", c.ID), slog.Any("error", err))
			}
		}
		if failed || len(calls) < abandonedMost {
			return nil
		}
	}
}

// usageOf is what the calls of a Turn used, in AG-UI's form. An Agent that reports its usage itself is believed: it may have
// called models past this server as well.
//
// The rows are added up when the Turn ends, and not counted in memory: the calls of one Turn may come to several replicas,
// and a restart in the middle of a Turn would lose a counter. A call that is still open then is not in the sum.
func usageOf(ctx context.Context, cfg *Config, turnID string, own []agui.TokenUsage) []agui.TokenUsage {
	if len(own) > 0 || !cfg.Models {
		return own
	}
	rows, err := cfg.Store.UsageOfTurn(ctx, store.System(), turnID)
	if err != nil {
		cfg.Logger.Warn("the usage of a Turn was not read", slog.String("turn_id", turnID), slog.Any("error", err))
	}
	usage := make([]agui.TokenUsage, len(rows))
	for i, row := range rows {
		total := row.Tokens.Input + row.Tokens.Output
		usage[i] = agui.TokenUsage{
			Provider: row.Upstream, Model: row.Model, InputTokens: &row.Tokens.Input, OutputTokens: &row.Tokens.Output, TotalTokens: &total,
			ReasoningTokens: positive(row.Tokens.Reasoning), CachedInputTokens: positive(row.Tokens.Cached),
		}
	}
	return usage
}

// positive is nil for 0, which AG-UI takes for a count that is known.
func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
