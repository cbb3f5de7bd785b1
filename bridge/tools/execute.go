package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// showAfter is how long a call runs that only its row shows, before the Session's owner is woken to show it. A quicker
// call is shown together with its result.
const showAfter = 50 * time.Millisecond

// executor executes one call in a slot of the runner, and keeps its end.
type executor struct {
	store    store.Store
	replica  string
	runner   *runner
	approved *approvedCheck
	commits  *commits
	outcomes *outcomes
	runtime  Runtime
	ended    func(tool string, status store.ToolCallStatus, took time.Duration) // may be nil
	logger   *slog.Logger
}

// attempt is one execution of a call.
type attempt struct {
	shown   bool          // the chat shows already that it runs
	asked   bool          // a person was asked for it
	refused *fault.Error  // why it is not executed: it is not what was approved
	span    trace.Context // of this attempt
}

// claimAndExecute executes an approved call, unless another replica does. The claim is committed before the tool is
// called, so that a crash in between leaves a call that is known to have perhaps begun, and never one that is executed
// twice.
func (e *executor) claimAndExecute(ctx context.Context, call store.ToolCall) {
	session, err := e.store.Session(ctx, store.System(), call.SessionID)
	if err != nil {
		e.retryLater(ctx, call, err)
		return
	}
	tool, err := e.store.ToolOf(ctx, store.System(), session.Tenant, call.Name)
	if errors.Is(err, store.ErrNotFound) {
		e.endUnregistered(ctx, call)
		return
	}
	if err != nil {
		e.retryLater(ctx, call, err)
		return
	}
	row, err := approvalRow(ctx, e.store, call)
	if err != nil {
		e.retryLater(ctx, call, err)
		return
	}
	again := !call.RunningAt.IsZero()
	failpoint.Here("before_tool_dispatch")
	call, span, won, err := e.claim(ctx, session, call)
	if err != nil {
		e.retryLater(ctx, call, err)
		return
	}
	if won { // the result is read from the row
		_, _ = e.execute(ctx, tool, call, attempt{asked: true, refused: e.approved.refusal(ctx, call, row, &tool, again), span: span})
	}
	e.commits.ring(call.SessionID)
}

// endUnregistered ends an approved call whose tool was unregistered while a person was asked. Without it the call would
// be looked for, and waited for, without end. A failed commit is repeated at the next look.
func (e *executor) endUnregistered(ctx context.Context, call store.ToolCall) {
	_, _ = e.commits.end(ctx, call, failedMove(call, store.ToolDispatched, fault.New(CodeUnknownTool, "The tool is not registered any more."), time.Now()), true)
	e.commits.ring(call.SessionID)
}

// claim makes an approved call this replica's, and returns it as it is kept then: its arguments may have been edited. A
// call that never began, and whose Turn has ended since it was approved, ends here instead.
func (e *executor) claim(ctx context.Context, session store.Session, call store.ToolCall) (_ store.ToolCall, span trace.Context, won bool, err error) {
	turn, err := e.store.Turn(ctx, store.System(), call.TurnID)
	if err != nil {
		return call, span, false, err
	}
	if !e.mayBegin(turn, session, call) {
		return call, span, false, nil
	}
	if turn.Status.Terminal() && call.RunningAt.IsZero() {
		why := fault.New(approval.CodeAskerGone, "The agent was gone before the tool began. It was not run.")
		if turn.Status == store.TurnCancelled {
			why = fault.New(CodeCancelled, "The run was cancelled before the tool began.")
		}
		move := failedMove(call, store.ToolDispatched, why, time.Now())
		_, err := e.commits.keep(ctx, call.SessionID, []store.Move{move, trace.Ended(call, move)}, nil)
		return call, span, false, err
	}
	now := time.Now().Truncate(time.Millisecond) // the precision of the row
	of, _ := trace.Parse(turn.Traceparent, turn.Tracestate)
	span = of.Under()
	move := store.ToolCallMove{
		ID: call.ID, From: store.ToolDispatched, To: store.ToolRunning, Replica: e.replica, RunningAt: now,
		WhileTurn: call.RunningAt.IsZero(), // the Turn may have ended since it was read
	}
	call.RunningAt = now
	_, err = e.commits.keep(ctx, call.SessionID, []store.Move{move, trace.If(move.To, now, runningRecord(call, span))}, nil)
	if err != nil {
		return call, span, false, err
	}
	// The row decides whose the call is, also when the answer to the commit was lost. An earlier attempt of this replica
	// whose end was not kept began at another time, so RunningAt distinguishes the two. The call is RUNNING now, so this read
	// waits for the database: who gives up here leaves a call that nobody executes.
	kept, err := e.store.ToolCall(store.Patient(ctx), store.System(), call.ID)
	return kept, span, err == nil && kept.Status == store.ToolRunning && kept.Replica == e.replica && kept.RunningAt.Equal(now), err
}

// mayBegin reports whether this replica may begin an approved call: it owns the Session, and knows that the agent can
// still get the result. A call that a person decided to execute again is for no agent. A replica that drains begins a call
// only if it called the agent that waits for the result.
func (e *executor) mayBegin(turn store.Turn, session store.Session, call store.ToolCall) bool {
	if session.Owner != e.replica || e.runner.leaving.Load() && turn.Upstream != e.replica {
		return false
	}
	if turn.Status.Terminal() || !call.RunningAt.IsZero() {
		return true
	}
	return turn.Upstream == "" || turn.Upstream == store.UpstreamWaits || turn.Upstream == e.replica // not UpstreamLost: it is called first
}

// execute executes a call that is RUNNING here, keeps its end, and returns the call as it then is.
// There are four ways out. The tool answered or failed: its end is kept, even if the caller has gone meanwhile. This
// server stops: nothing is kept, because whether the tool did its work is not known. The tool's server was lost on the way: a
// person is asked. Another writer ended the call first: its end is what the caller gets.
func (e *executor) execute(ctx context.Context, tool store.Tool, call store.ToolCall, a attempt) (store.ToolCall, error) {
	failpoint.Here("after_tool_dispatch")
	began := time.Now()
	if !a.shown && !a.asked {
		late := time.AfterFunc(showAfter, func() { e.commits.ring(call.SessionID) })
		defer late.Stop()
	}
	result, failure := e.dispatch(ctx, tool, call, a)
	failpoint.Here("before_tool_result")
	move := store.ToolCallMove{
		ID: call.ID, From: store.ToolRunning, OnlyOf: e.replica, To: store.ToolSucceeded, Result: result, EndedAt: time.Now(),
	}
	if failure != nil {
		if ctx.Err() != nil {
			return call, nil // the server stops: the outcome is unknown, and the next process asks a person about it
		}
		if failure.Code == CodeUnknownOutcome {
			return e.ask(ctx, call, failure)
		}
		move.To, move.Result, move.ErrorCode, move.Error = store.ToolFailed, nil, failure.Code, mustJSON(failure)
		if failure.Code == CodeTimeout {
			move.To = store.ToolTimeout
		}
	}
	kept, err := e.commits.end(ctx, call, move, a.asked)
	if e.ended != nil {
		e.ended(call.Name, move.To, time.Since(began))
	}
	if err != nil {
		return call, err
	}
	if kept.Lost { // another writer was first, or the answer to this commit was lost
		return e.store.ToolCall(ctx, store.System(), call.ID)
	}
	call.InTranscript = kept.Shown
	return call.Ended(move), nil
}

// ask asks a person what became of a call whose tool was lost while it ran, as after a crash of this server. Where the
// Question cannot be kept, the call stays RUNNING, and the next process asks.
func (e *executor) ask(ctx context.Context, call store.ToolCall, why *fault.Error) (store.ToolCall, error) {
	ctx, cancel := toItsEnd(ctx)
	defer cancel()
	if err := e.outcomes.ask(ctx, call, why.Message); err != nil {
		e.logger.Error("a lost tool call was not asked about", slog.String("tool_call_id", call.ID), slog.Any("error", err))
		return call, err
	}
	return e.store.ToolCall(ctx, store.System(), call.ID)
}

// dispatch executes a call within its timeout, unless it is not what was approved.
// The timeout is the call's and begins now. It is within the runner's context, whose end means that the server stops.
func (e *executor) dispatch(ctx context.Context, tool store.Tool, call store.ToolCall, a attempt) (json.RawMessage, *fault.Error) {
	if a.refused != nil {
		return nil, a.refused
	}
	timed, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	return e.runtime.Execute(timed, Dispatch{Tool: tool, Call: call, Asked: a.asked, Span: a.span})
}

// giveBack ends a call that was kept as RUNNING when no slot was left: it fails without having done anything. If that
// cannot be kept, the error is in the log.
func (e *executor) giveBack(ctx context.Context, call store.ToolCall) {
	move := failedMove(call, store.ToolRunning, busy(), time.Now())
	move.OnlyOf = e.replica
	_, _ = e.commits.end(ctx, call, move, false)
}

// retryLater logs why a call could not be seen to. The next look finds it again.
func (e *executor) retryLater(ctx context.Context, call store.ToolCall, err error) {
	if ctx.Err() == nil {
		e.logger.Error("tool call not seen to, trying again", slog.String("tool_call_id", call.ID), slog.Any("error", err))
	}
}

// failedMove ends a call that is in state from as FAILED.
func failedMove(call store.ToolCall, from store.ToolCallStatus, why *fault.Error, now time.Time) store.ToolCallMove {
	return store.ToolCallMove{ID: call.ID, From: from, To: store.ToolFailed, ErrorCode: why.Code, Error: mustJSON(why), EndedAt: now}
}
