// This file makes one Task a Turn, once. Of whatever goes wrong it decides one of three things: the Task waits on (a
// refusal that passes), it has failed for good, or it stays TAKEN and the next round takes it up again (the store is
// away).

package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// passes reports whether a refusal ends by itself: the Task waits on.
func passes(refusal *fault.Error) bool {
	switch refusal.Code {
	case bridge.RefusedTooManyTurns, bridge.RefusedRunInProgress, bridge.RefusedTenantFull, bridge.RefusedShuttingDown:
		return true
	}
	return false
}

// mayPass reports whether an error that is no refusal may end by itself: the store's, or that this server ends. Of an
// unknown outcome the next round sees what it was, by the Task's status.
func mayPass(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrFenced) ||
		errors.Is(err, store.ErrConflict)
}

// begin makes a Task a Turn. nil is a Task about which all is decided, also when that is its failure; with an error
// it stays TAKEN by this replica, whose next round finds it (room).
func (q *Queue) begin(ctx context.Context, t store.Task) error {
	t, err := q.cfg.Store.Task(ctx, store.System(), t.ID)
	if errors.Is(err, store.ErrNotFound) { // gone with its thread
		return nil
	}
	if err != nil {
		return err
	}
	body, err := q.open(t)
	if err != nil {
		q.cfg.Logger.Error("a task cannot be read", slog.String("task_id", t.ID), slog.Any("error", err))
		return q.fail(ctx, t, fault.New(CodeUnreadable, "The request of this task cannot be read any more."))
	}
	tools := make([]agui.Tool, len(body.Tools))
	for i, tool := range body.Tools {
		tools[i] = agui.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
	}
	channel := body.callback()
	reply, err := q.cfg.Sessions.Chat(ctx, bridge.ChatRequest{
		Principal: store.Principal{Tenant: t.Tenant, User: t.User, Roles: body.Roles}, Dialect: bridge.DialectV1, ThreadID: t.ThreadID, RunID: t.RequestID,
		AgentID: t.AgentID, Messages: body.Messages, Tools: tools, Context: body.Context, Props: body.Props, BodyHash: t.BodyHash,
		Traceparent: body.Traceparent, Tracestate: body.Tracestate, Channel: true, Callback: channel != "",
		Task: &bridge.TaskStart{TurnID: t.ID, Shared: body.Shared, Begin: q.starts(t, channel)},
	})
	var refused *fault.Error
	switch {
	case errors.As(err, &refused) && passes(refused):
		return q.inTx(ctx, func(tx store.Tx) error {
			_, err := tx.MoveTask(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskWaiting})
			return err
		})
	case errors.As(err, &refused):
		return q.fail(ctx, t, refused)
	case errors.Is(err, errGone):
		return nil
	case err != nil && mayPass(ctx, err): // the next round finds it without a Turn
		return err
	case err != nil: // as the bytes of an attachment that are gone: it would be tried for ever, in a place of its agent
		q.cfg.Logger.Error("a task cannot be begun", slog.String("task_id", t.ID), slog.Any("error", err))
		return q.fail(ctx, t, fault.New(CodeUnreadable, "The request of this task, or what it names, cannot be read any more."))
	case reply.Run.ID != t.ID: // no Turn was made, and none would be the next time
		return q.fail(ctx, t, fault.New(bridge.RefusedRunIDConflict, "This request, or its message, is one that the thread has from elsewhere."))
	}
	return nil
}

// fail ends a Task that will never be a Turn, with the reason that its user is given. One that was cancelled
// meanwhile stays cancelled: the move is by compare-and-set.
func (q *Queue) fail(ctx context.Context, t store.Task, why *fault.Error) error {
	return q.inTx(ctx, func(tx store.Tx) error {
		_, err := q.end(ctx, tx, t, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskFailed, Code: why.Code, Message: why.Message})
		return err
	})
}

// end ends a Task that will never be a Turn, and has that sent where the Task asks for it, from the same commit on. False when the
// Task has moved on. Where its request cannot be read, it is not known where that would be.
func (q *Queue) end(ctx context.Context, tx store.Tx, t store.Task, m store.TaskMove) (bool, error) {
	m.EndedAt = time.Now()
	done, err := tx.MoveTask(ctx, m)
	if err != nil || !done || q.ended == nil {
		return done, err
	}
	body, err := q.open(t)
	if err != nil {
		return true, nil
	}
	t.Status, t.Code, t.Message = m.To, m.Code, m.Message
	return true, q.ended(ctx, tx, t, body.callback())
}

// inTx is a transaction that is begun again for as long as it takes the store to come back.
func (q *Queue) inTx(ctx context.Context, fn func(store.Tx) error) error {
	return retry.While(ctx, isAway, func() error { return q.cfg.Store.InTx(ctx, fn) })
}

// errGone: a Task was cancelled, or taken by another replica, before its Turn was made.
var errGone = errors.New("queue: the task is not to be begun any more")

// starts is what is called in the transaction that makes the Turn. The Task's row decides whether there will be one, so that
// neither a cancel nor another replica is overlooked; and what comes of the Turn is sent where the Task asks for it, from the same
// commit on.
func (q *Queue) starts(t store.Task, channel string) func(context.Context, store.Tx, bridge.Reply) error {
	return func(ctx context.Context, tx store.Tx, reply bridge.Reply) error {
		mine, err := tx.MoveTask(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskBegun, Replica: q.cfg.Replica})
		if err == nil && !mine {
			err = errGone
		}
		if err == nil && q.begun != nil {
			err = q.begun(ctx, tx, t, channel, reply)
		}
		return err
	}
}

// isAway reports whether the database could not be reached, which is tried again.
func isAway(err error) bool { return errors.Is(err, store.ErrUnavailable) }
