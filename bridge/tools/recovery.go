package tools

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// recovery looks at the rows for what is to be done, by this replica or for one that died: approved calls that have not
// begun, calls that wait although their Turn is over, calls whose runner died. Its bell makes it look at once.
//
// Three kinds of calls are found by looking only: approved ones, because the approval may have come on another
// replica; waiting ones whose Turn ended in the same moment; and running ones that nobody executes: their replica is fenced,
// or it is this one, which gave up when the database went away. The last become UNKNOWN and are asked about, never executed
// again: nothing shows whether the tool has run.
type recovery struct {
	store    store.Store
	runner   *runner
	executor *executor
	clients  *clientCalls
	outcomes *outcomes
	settler  *approval.Settler // set by Service.Use
	notices  approval.Notices
	ring     func(sessionID string)
	settled  func(approval.Question) // counts what was settled here; may be nil
	logger   *slog.Logger
	bell     wake.Signal

	replica string
	strays  map[string]time.Time // since when calls of this replica are RUNNING without being executed; run's goroutine alone
}

// run looks at every ring and every tick, until ctx ends.
// It rings itself first, so that what an earlier process left is seen to at the start.
func (r *recovery) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	r.bell.Ring()
	for {
		select {
		case <-r.bell:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("could not look for tool calls", slog.Any("error", err))
		}
	}
}

// All replicas look at all rows. Which of them executes a call is decided by a compare-and-set when it claims it.
func (r *recovery) look(ctx context.Context) error {
	approved, err := r.store.ToolCallsByStatus(ctx, store.System(), []store.ToolCallStatus{store.ToolDispatched}, store.KindServer, lookMost)
	if err != nil {
		return err
	}
	for _, call := range approved {
		r.runner.begin(call.ID, func(ctx context.Context) { r.executor.claimAndExecute(ctx, call) })
	}
	if err := r.clients.armDispatched(ctx); err != nil {
		return err
	}
	abandoned, err := r.store.AbandonedToolCalls(ctx, store.System(), lookMost)
	if err != nil {
		return err
	}
	for _, call := range abandoned {
		if err := r.settle(ctx, call, approval.AskerGone()); err != nil {
			r.executor.retryLater(ctx, call, err)
		}
	}
	orphans, err := r.store.OrphanedToolCalls(ctx, store.System(), r.replica, lookMost+cap(r.runner.slots))
	if err != nil {
		return err
	}
	for _, call := range r.abandoned(orphans, time.Now()) {
		if err := r.outcomes.ask(ctx, call, stoppedHere); err != nil {
			r.executor.retryLater(ctx, call, err)
		}
	}
	return nil
}

// abandoned are the calls that nobody executes. One of this replica is among them when it was not in work here for the time of
// a look: its row is written before its work begins, and its work may end just after the row was read.
func (r *recovery) abandoned(orphans []store.ToolCall, now time.Time) []store.ToolCall {
	strays := make(map[string]time.Time)
	orphans = slices.DeleteFunc(orphans, func(call store.ToolCall) bool {
		if call.Replica != r.replica {
			return false
		}
		if r.runner.endOf(call.ID) != nil {
			return true
		}
		since, known := r.strays[call.ID]
		if !known {
			since = now
		}
		strays[call.ID] = since
		return now.Sub(since) < lookEvery
	})
	r.strays = strays
	return orphans
}

// settle ends a call that waits and is not needed, unless another writer was first. A call whose agent is gone is found
// here when it was made in the moment in which its agent ended, so that the end of the Turn did not see it.
func (r *recovery) settle(ctx context.Context, call store.ToolCall, d approval.Decision) error {
	var settled approval.Settled
	err := r.store.InTx(ctx, func(tx store.Tx) error {
		session, err := tx.LockSession(ctx, store.System(), call.SessionID)
		if err != nil {
			return err
		}
		q, err := approval.Load(ctx, tx, store.System(), call.ID)
		if err != nil {
			return err
		}
		settled, err = r.settler.Apply(ctx, tx, session, q, d, store.Principal{})
		return err
	})
	if err != nil || !settled.Won {
		return err
	}
	if r.settled != nil {
		r.settled(settled.Question)
	}
	r.ring(call.SessionID)
	r.notices.Kept(settled.Question, settled.Session)
	return nil
}
