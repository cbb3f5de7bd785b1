// This file is the queue's loop: when it is looked at, and what one look does. A look costs a query where nothing
// waits; the lock that all replicas share is taken only where something does.

package queue

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"aqueduct/store"
)

// Run begins Tasks until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	for {
		pause := restEvery
		busy, err := q.round(ctx)
		q.busy.Store(busy)
		if err != nil && ctx.Err() == nil {
			q.cfg.Logger.Warn("the queue could not be looked at; it is tried again", slog.Any("error", err))
		}
		if busy {
			pause = lookEvery
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

// round takes what there is room for, and begins it. busy: something waits or is under way. A Task that cannot be begun now keeps
// none of the others but by its place: what it needs may be away for it alone, as the bytes of its attachments. The first error
// is reported. A replica that drains takes no Task.
func (q *Queue) round(ctx context.Context) (busy bool, err error) {
	if q.cfg.Sessions.Draining().Begun() { // another replica, or the next process, takes the waiting Tasks
		return false, nil
	}
	taken, busy, err := q.take(ctx)
	for _, t := range taken {
		if failed := q.begin(ctx, t); err == nil {
			err = failed
		}
	}
	return busy, err
}

// take chooses Tasks and marks them as taken by this replica. What replicas that are gone had taken and not begun is
// taken over; what has ended is deleted. Lines are read before the lock, since a line that is out of date only costs
// a look: its Tasks are read, and moved by compare-and-set, under it.
func (q *Queue) take(ctx context.Context) (mine []store.Task, busy bool, err error) {
	lines, err := q.lines(ctx)
	if err != nil {
		return nil, false, err
	}
	under, err := q.cfg.Store.TakenTasks(ctx, store.System())
	if err != nil || len(lines)+len(under) == 0 {
		return nil, false, err
	}
	err = q.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		// The store may run this again; what an undone run had taken is not taken.
		mine = nil
		if err := tx.LockQueue(ctx); err != nil {
			return err
		}
		room, lost, err := q.room(ctx, tx)
		if err != nil {
			return err
		}
		chosen, err := room.choose(lines, func(line store.TaskLine, most int) ([]store.Task, error) {
			return tx.NextTasks(ctx, store.System(), line, most)
		})
		if err != nil {
			return err
		}
		// Those of replicas that are gone hold a place of their agent already (room), so they are not chosen but
		// taken over.
		for _, t := range append(lost, chosen...) {
			ok, err := tx.MoveTask(ctx, store.TaskMove{ID: t.ID, From: t.Status, To: store.TaskTaken, Replica: q.cfg.Replica})
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

// lines are those that this look is about, without those of agents that are known to be out of reach. Where there are more than
// it reads, the next begins behind them, so that each has its turn.
func (q *Queue) lines(ctx context.Context) ([]store.TaskLine, error) {
	from := q.behind
	lines, err := q.cfg.Store.TaskLines(ctx, store.System(), from, linesOfLook)
	if err == nil && len(lines) == 0 && from != (store.TaskLine{}) {
		lines, err = q.cfg.Store.TaskLines(ctx, store.System(), store.TaskLine{}, linesOfLook)
	}
	q.behind = store.TaskLine{}
	if len(lines) == linesOfLook {
		q.behind = lines[len(lines)-1]
	}
	agents := q.cfg.Sessions.Agents()
	return slices.DeleteFunc(lines, func(l store.TaskLine) bool { return agents.Away(l.Tenant, l.AgentID) }), err
}

// room counts what was taken and has not ended. lost are those without a Turn whose replica is gone; those of this replica
// itself that a failed round left are lost too.
func (q *Queue) room(ctx context.Context, tx store.Tx) (r room, lost []store.Task, err error) {
	r = room{q.cfg.Limits.PerAgent, max(1, q.cfg.Sessions.Limits().QuestionsPerUser/askingShare), make(map[string]int), make(map[string]int), make(map[string]int)}
	taken, err := tx.TakenTasks(ctx, store.System())
	if err != nil {
		return r, nil, err
	}
	for _, t := range taken {
		switch {
		case t.Turn.Terminal(), t.Turn == "" && t.Status != store.TaskTaken: // or gone, with its thread
			if err := tx.DeleteTask(ctx, t.ID); err != nil {
				return r, nil, err
			}
			continue
		case t.Turn == "" && (t.Gone || t.Replica == q.cfg.Replica):
			lost = append(lost, t.Task)
		case t.Turn.Paused():
			r.asking[ownerOf(t.Tenant, t.User)]++
			continue
		case t.Status == store.TaskUnsent: // one that knocks is enough
			r.agents[t.AgentID] += r.perAgent
		}
		r.agents[t.AgentID]++
		r.owners[ownerOf(t.Tenant, t.User)]++
	}
	return r, lost, nil
}
