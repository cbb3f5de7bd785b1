package bridge

import (
	"context"
	"errors"

	"aqueduct/store"
)

// errTaskGone: a Task was cancelled, or taken by another replica, before its Turn was made.
var errTaskGone = errors.New("bridge: the task is not to be begun any more")

// taskStart is a Task on its way to its Turn.
type taskStart struct {
	queue   *Queue
	task    store.Task
	channel string
}

// turnID is the id of the Turn that a request makes: the one that was given out for a Task, else a new one.
func (s *taskStart) turnID() string {
	if s == nil {
		return newID()
	}
	return s.task.ID
}

// begin is called in the transaction that makes the Turn. The Task's row decides whether there will be one, so that neither a
// cancel nor another replica is overlooked; and what comes of the Turn is sent where the Task asks for it, from the same commit on.
func (s *taskStart) begin(ctx context.Context, tx store.Tx, reply Reply) error {
	mine, err := tx.MoveTask(ctx, store.TaskMove{ID: s.task.ID, From: store.TaskTaken, To: store.TaskBegun, Replica: s.queue.replica})
	if err == nil && !mine {
		err = errTaskGone
	}
	if err == nil && s.queue.begun != nil {
		err = s.queue.begun(ctx, tx, s.task, s.channel, reply)
	}
	return err
}
