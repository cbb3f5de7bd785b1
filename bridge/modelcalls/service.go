// Package modelcalls keeps what Agents have of models through this server: each call when it begins and when it ends, on the trace
// of the Turn that the Agent's token belongs to.
package modelcalls

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Config is what a Service needs.
type Config struct {
	Store store.Store
	// Caller is the Turn that an Agent's token belongs to; its error refuses the call.
	Caller func(ctx context.Context, token string) (tools.Caller, error)
	// Budgets bound what models may be used for; nil bounds nothing.
	Budgets  Budgets
	Replica  string // the id of this process, whose calls end with it
	Currency string // of what models cost
	Logger   *slog.Logger
}

// Service keeps the calls of models. Any goroutine may call its methods.
type Service struct{ cfg Config }

// New makes a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Budgets bound what models may be used for; bridge/budget has them.
type Budgets interface {
	// Admit returns when a call of a model may begin, or with a *fault.Error that refuses it. Where a person has to be asked first,
	// waits is called before, whose error refuses the call too.
	Admit(ctx context.Context, from tools.Caller, waits func() error) error
	// Count adds what a call used, in the transaction that keeps its end.
	Count(ctx context.Context, tx store.Tx, c store.ModelCall) error
}

// Request is a call of a model that begins.
type Request struct {
	Route, Model string
	Stream       bool
	// Tokens and Cost are what the call counts with when its server is killed in the middle of it.
	Tokens store.ModelTokens
	Cost   int64
	// Waits is called before the call begins to wait for a person, where a budget is used up. An error of it refuses the call.
	Waits func() error
}

// ErrTurnEnded is the error of a call whose Turn has ended while a person was asked about its budget.
var ErrTurnEnded = errors.New("modelcalls: the turn has ended")

// Begin keeps a call of the Agent that sends the token. It is committed before the upstream is called, so that no call is
// paid for that is not on record. The span is for the upstream. Where a budget is used up it waits for a person; the error is a
// *fault.Error of the Budgets when that one refuses, or ErrTurnEnded. For a token that is not good it is that of Config.Caller.
func (s *Service) Begin(ctx context.Context, token string, req Request) (store.ModelCall, trace.Context, error) {
	from, err := s.cfg.Caller(ctx, token)
	if err != nil {
		return store.ModelCall{}, trace.Context{}, err
	}
	if err := s.admit(ctx, from, req.Waits); err != nil {
		return store.ModelCall{}, trace.Context{}, err
	}
	span := from.Trace.Under()
	c := store.ModelCall{
		ID: uuid.Must(uuid.NewV7()).String(), SessionID: from.Session.ID, TurnID: from.TurnID, AgentID: from.Session.AgentID, Route: req.Route, Model: req.Model,
		Status: store.ModelOpen, StartedAt: time.Now().Truncate(time.Millisecond), Replica: s.cfg.Replica, Tokens: req.Tokens, Cost: req.Cost,
	}
	return c, span, s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if err := tx.InsertModelCall(ctx, c); err != nil {
			return err
		}
		return tx.InsertRecord(ctx, trace.ModelCallStarted(c, req.Stream, span.Traceparent()))
	})
}

// admit lets a call through the budgets. A person may take days, and the question may be the caller's of the Agent: where the Turn
// has ended meanwhile its token is good for nothing, and nothing is paid for it.
func (s *Service) admit(ctx context.Context, from tools.Caller, waits func() error) error {
	if s.cfg.Budgets == nil {
		return nil
	}
	waited := false
	err := s.cfg.Budgets.Admit(ctx, from, func() error {
		waited = true
		return waits()
	})
	if err != nil || !waited {
		return err
	}
	turn, err := s.cfg.Store.Turn(ctx, store.System(), from.TurnID)
	if err == nil && turn.Status.Terminal() {
		err = ErrTurnEnded
	}
	return err
}

// endWait bounds how long the end of a call is tried to be kept while the store is away: who waits for it holds a
// connection, and the server may be on its way out.
const endWait = 10 * time.Second

// End keeps the end of a call. It does so also when the caller has left: what was paid for has to be on record. A second end
// of the same call changes nothing, so a transaction whose outcome is unknown can be tried again.
func (s *Service) End(ctx context.Context, c store.ModelCall, more trace.ModelEnded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	if err := retry.While(ctx, isAway, func() error { return s.end(ctx, c, more) }); err != nil {
		s.cfg.Logger.Error("the end of a model call is not on record", slog.String("request_id", c.ID), slog.Any("error", err))
	}
}

// end keeps an end, what it counts for budgets, and its Record, if it is the first one.
func (s *Service) end(ctx context.Context, c store.ModelCall, more trace.ModelEnded) error {
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		first, err := tx.EndModelCall(ctx, c)
		if err != nil || !first {
			return err
		}
		if s.cfg.Budgets != nil {
			if err := s.cfg.Budgets.Count(ctx, tx, c); err != nil {
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

// EndAbandoned ends the calls that were under way in replicas that are gone, with what they count for as they began: the
// upstream was paid, and it is not known how far it came. All replicas may look at once; the first end counts. A call that cannot
// be ended is left to the next look, so that it does not keep the others, or the Sessions, waiting.
func (s *Service) EndAbandoned(ctx context.Context) error {
	for {
		calls, err := s.cfg.Store.AbandonedModelCalls(ctx, store.System(), abandonedMost)
		if err != nil {
			return err
		}
		failed := false
		for _, c := range calls {
			c.Status, c.Code, c.EndedAt = store.ModelCut, codeServerGone, time.Now().Truncate(time.Millisecond)
			if err := s.end(ctx, c, trace.ModelEnded{Currency: s.cfg.Currency}); err != nil {
				failed = true
				s.cfg.Logger.Warn("a model call of a server that is gone was not ended", slog.String("request_id", c.ID), slog.Any("error", err))
			}
		}
		if failed || len(calls) < abandonedMost {
			return nil
		}
	}
}

// isAway reports whether the database could not be reached, which is tried again.
func isAway(err error) bool { return errors.Is(err, store.ErrUnavailable) }
