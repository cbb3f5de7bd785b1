package bridge

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// SteeringGate decides whether a person may change how freely an agent acts: by the policy, or by asking another person.
type SteeringGate struct {
	store     store.Store
	policy    *policy.Holder // nil: the default policy
	hash      redact.Hasher
	bell      *eventlog.Bell
	notices   approval.Notices
	approvals *approval.Service
	logger    *slog.Logger
}

// Allow returns nil when the policy, or a person that the policy wants asked, allows the change. It waits for that person
// for SteerWait at most. Its error is a *fault.Error, or ctx's.
// A person who may prompt an agent is not always one who may take its brakes off. Where the policy asks, the Question stands
// in the inbox like any other, under the thread of the request.
func (g *SteeringGate) Allow(ctx context.Context, who store.Principal, session store.Session, steering Steering) error {
	rules := policy.Default
	if g.policy != nil {
		rules = g.policy.Current
	}
	call := steering.call(session, who)
	// No Grants are given to the policy: each such change is decided by itself.
	switch v := rules().Decide(call, nil, time.Now()); v.Action {
	case policy.Allow:
		return nil
	case policy.Block:
		return fault.New(approval.PolicyBlocks, "The policy blocks this: "+v.Reason)
	default:
		return g.ask(ctx, session, call, v)
	}
}

// ask asks in the inbox and waits. The Question belongs to the thread's last Turn, over or not; no Agent waits for it.
// The bell is watched before the rows are written: a decision that comes right behind the commit rings it, and a watch
// that began later would miss that.
func (g *SteeringGate) ask(ctx context.Context, session store.Session, call policy.Call, v policy.Verdict) error {
	run, err := g.store.LastRun(ctx, store.System(), session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return fault.New(ControlNoAgent, "This thread has no agent running.")
	}
	if err != nil {
		return err
	}
	row, asked := steerRows(g.hash, session, run.TurnID, call, v)
	changed, stop := g.bell.Watch(session.ID)
	defer stop()
	err = g.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.System(), session.ID); err != nil {
			return err
		}
		if err := errors.Join(tx.InsertToolCall(ctx, row), tx.InsertApproval(ctx, asked), tx.InsertRecord(ctx, trace.ApprovalRecord(asked))); err != nil {
			return err
		}
		return g.notices.Insert(ctx, tx, approval.Question{Call: row, Approval: asked}, session)
	})
	if err != nil {
		return err
	}
	g.approvals.Deadlines.Arm(row.ID, time.Until(row.ExpiresAt))
	g.bell.Ring(session.ID)
	g.notices.Kept(approval.Question{Call: row, Approval: asked}, session)
	return g.await(ctx, row.ID, changed)
}

// steerAgain is how often the Question is read without a ring: a ring of another replica may be lost.
const steerAgain = 2 * time.Second

// await waits for the decision. When the request ends, the Question is withdrawn: an approval would have no effect.
func (g *SteeringGate) await(ctx context.Context, id string, changed <-chan struct{}) error {
	tick := time.NewTicker(steerAgain)
	defer tick.Stop()
	for {
		a, err := g.store.Approval(ctx, store.System(), id)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && a.Status == store.ApprovalApproved:
			return nil
		case err == nil && a.Status != store.ApprovalPending:
			return fault.New(ControlRejected, "It had to be approved, and was not: "+strings.ToLower(string(a.Status))+".")
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			g.discard(context.WithoutCancel(ctx), id)
			return ctx.Err()
		}
	}
}

// withdrawWait bounds the work for a request that has ended.
const withdrawWait = 5 * time.Second

// discard runs after the request has ended, so the caller's context is of no use.
// If it fails the Question stays in the inbox until it expires; a decision has no effect then.
func (g *SteeringGate) discard(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, withdrawWait)
	defer cancel()
	if err := g.approvals.Withdraw(ctx, id); err != nil {
		g.logger.Error("a question about a control is left to expire", slog.String("approval_id", id), slog.Any("error", err))
	}
}
