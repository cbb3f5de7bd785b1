package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/internal/retry"
	"aqueduct/store"
)

const (
	// unsentPause is the pause before an Agent that could not be connected to is called again for a Task; it doubles each time.
	unsentPause = 500 * time.Millisecond
	// unsentPauseMost bounds it: an Agent that is back has its tasks a moment later.
	unsentPauseMost = 15 * time.Second
)

// startTask is Agent.Start for a Task's Turn, which can wait: where the Agent cannot be connected to it is called again, for as
// long as that takes or until the Turn is cancelled. The Task's row is UNSENT from a failure until just before the next try. So
// a process that takes the Turn over knows that the Agent has got nothing, and of two only one calls it.
func (u *upstream) startTask(ctx context.Context, call Call, unsent bool) (Turn, error) {
	for pause := unsentPause; ; pause = min(2*pause, unsentPauseMost) {
		if unsent {
			if err := u.moveTask(ctx, store.TaskUnsent, store.TaskBegun); err != nil {
				return nil, err
			}
		}
		up, err := u.agent.Start(ctx, call)
		if !errors.Is(err, ErrUnsent) {
			return up, err
		}
		if u.markUnsent(ctx) != nil {
			return nil, err
		}
		unsent = true
		if err := retry.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// markUnsentTime bounds the keeping of a failure that is known when the server stops.
const markUnsentTime = 2 * time.Second

// markUnsent keeps that nothing was sent, also while the server stops: else the next process would take the Agent for called.
func (u *upstream) markUnsent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markUnsentTime)
	defer cancel()
	return u.moveTask(ctx, store.TaskBegun, store.TaskUnsent)
}

// errTaskGone: the Task's row is not as it was left, since another process has taken the Turn over.
var errTaskGone = errors.New("bridge: the row of the task was moved by another")

// moveTask moves the Task's row; errTaskGone where that is not in from.
func (u *upstream) moveTask(ctx context.Context, from, to store.TaskStatus) error {
	return retry.While(ctx, isAway, func() error {
		return u.store.InTx(ctx, func(tx store.Tx) error {
			moved, err := tx.MoveTask(ctx, store.TaskMove{ID: u.turnID, From: from, To: to})
			if err == nil && !moved {
				err = errTaskGone
			}
			return err
		})
	})
}

// readUnsent finds out whether the Agent of a Turn that another process began was not called yet.
func (u *upstream) readUnsent(ctx context.Context) error {
	if !u.task {
		return nil
	}
	return retry.While(ctx, isAway, func() error {
		t, err := u.store.Task(ctx, store.System(), u.turnID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		u.unsent = t.Status == store.TaskUnsent
		return err
	})
}
