package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Run begins Tasks until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	for {
		pause := queueRest
		busy, err := q.round(ctx)
		q.busy.Store(busy)
		if err != nil && ctx.Err() == nil {
			q.logger.Warn("the queue could not be looked at; it is tried again", slog.Any("error", err))
		}
		if busy {
			pause = queueLook
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-q.bell:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// round takes what there is room for, and begins it. busy: something waits or is under way.
func (q *Queue) round(ctx context.Context) (busy bool, err error) {
	taken, busy, err := q.take(ctx)
	for _, t := range taken {
		if err == nil {
			err = q.begin(ctx, t)
		}
	}
	return busy, err
}

// take chooses Tasks and marks them as taken by this replica. What replicas that are gone had taken and not begun is taken
// over; what has ended is deleted.
func (q *Queue) take(ctx context.Context) (mine []store.Task, busy bool, err error) {
	waits, err := q.store.CountTasks(ctx, store.System())
	if err != nil {
		return nil, false, err
	}
	under, err := q.store.TakenTasks(ctx, store.System())
	if err != nil || waits+len(under) == 0 {
		return nil, false, err
	}
	err = q.store.InTx(ctx, func(tx store.Tx) error {
		mine = nil
		if err := tx.LockQueue(ctx); err != nil {
			return err
		}
		room, lost, err := q.room(ctx, tx)
		if err != nil {
			return err
		}
		waiting, err := tx.NextTasks(ctx, store.System(), tasksOfEach, tasksOfLook)
		if err != nil {
			return err
		}
		for _, t := range append(lost, room.choose(waiting)...) {
			ok, err := tx.MoveTask(ctx, store.TaskMove{ID: t.ID, From: t.Status, To: store.TaskTaken, Replica: q.replica})
			if err != nil {
				return err
			}
			if ok {
				mine = append(mine, t)
			}
		}
		return tx.DeleteTasksBefore(ctx, time.Now().Add(-endedTasks))
	})
	return mine, true, err
}

// room is what is under way, and by whom.
type room struct {
	perAgent       int
	agents, owners map[string]int
}

// room counts what was taken and has not ended. lost are those without a Turn whose replica is gone; those of this replica
// itself that a failed round left are lost too.
func (q *Queue) room(ctx context.Context, tx store.Tx) (r room, lost []store.Task, err error) {
	r = room{q.limits.TasksPerAgent, make(map[string]int), make(map[string]int)}
	taken, err := tx.TakenTasks(ctx, store.System())
	if err != nil {
		return r, nil, err
	}
	for _, t := range taken {
		switch {
		case t.Turn.Terminal():
			if err := tx.DeleteTask(ctx, t.ID); err != nil {
				return r, nil, err
			}
			continue
		case t.Turn == "" && (t.Gone || t.Replica == q.replica):
			lost = append(lost, t.Task)
		}
		r.agents[t.AgentID]++
		r.owners[ownerOf(t.Task)]++
	}
	return r, lost, nil
}

func ownerOf(t store.Task) string { return t.Tenant + "\x00" + t.User }

// choose picks what there is room for: by priority, then of the user who has least under way, then by age. One user's ten
// thousand Tasks so delay another's first by one.
func (r room) choose(waiting []store.Task) (chosen []store.Task) {
	better := func(a, b store.Task) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(r.owners[ownerOf(a)], r.owners[ownerOf(b)]), cmp.Compare(a.ID, b.ID))
	}
	for {
		waiting = slices.DeleteFunc(waiting, func(t store.Task) bool { return r.agents[t.AgentID] >= r.perAgent })
		if len(waiting) == 0 {
			return chosen
		}
		best := slices.MinFunc(waiting, better)
		chosen = append(chosen, best)
		r.agents[best.AgentID]++
		r.owners[ownerOf(best)]++
		waiting = slices.DeleteFunc(waiting, func(t store.Task) bool { return t.ID == best.ID })
	}
}

// passes reports whether a refusal ends by itself: the Task waits on.
func passes(refusal *fault.Error) bool {
	switch refusal.Code {
	case RefusedTooManyTurns, RefusedRunInProgress, RefusedTenantFull:
		return true
	}
	return false
}

// begin makes a Task a Turn. A Turn that is there already is found again, so a second try changes nothing.
func (q *Queue) begin(ctx context.Context, t store.Task) error {
	t, err := q.store.Task(ctx, store.System(), t.ID)
	if err != nil {
		return err
	}
	body, err := q.open(t)
	if err != nil {
		q.logger.Error("a task cannot be read", slog.String("task_id", t.ID), slog.Any("error", err))
		return q.fail(ctx, t, fault.New(CodeTaskUnreadable, "The request of this task cannot be read any more."))
	}
	tools := make([]agui.Tool, len(body.Tools))
	for i, tool := range body.Tools {
		tools[i] = agui.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
	}
	reply, err := q.sessions.Chat(ctx, ChatRequest{
		Principal: store.Principal{Tenant: t.Tenant, User: t.User, Roles: body.Roles}, Dialect: DialectV1, ThreadID: t.ThreadID, RunID: t.RequestID,
		AgentID: t.AgentID, Messages: body.Messages, Tools: tools, Context: body.Context, Props: body.Props, BodyHash: t.BodyHash,
		Traceparent: body.Traceparent, Tracestate: body.Tracestate, OnBusy: OnBusyQueue, Channel: true, Callback: body.Channel != "", turnID: t.ID,
	})
	var refused *fault.Error
	switch {
	case errors.As(err, &refused) && passes(refused):
		return q.move(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskWaiting})
	case errors.As(err, &refused):
		return q.fail(ctx, t, refused)
	case err != nil: // the store is away; the next round finds it without a Turn
		return err
	case reply.Run.ID != t.ID: // a question of the thread is open, which is answered first
		return q.move(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskWaiting})
	}
	if q.begun != nil {
		return q.begun(ctx, t, body.Channel, reply)
	}
	return nil
}

func (q *Queue) fail(ctx context.Context, t store.Task, why *fault.Error) error {
	return q.move(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskFailed, Code: why.Code, Message: why.Message, EndedAt: time.Now()})
}

func (q *Queue) move(ctx context.Context, m store.TaskMove) error {
	return retry.While(ctx, isAway, func() error {
		return q.store.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.MoveTask(ctx, m)
			return err
		})
	})
}
