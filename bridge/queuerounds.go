package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
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

// round takes what there is room for, and begins it. busy: something waits or is under way. A Task that cannot be begun now keeps
// none of the others: what it needs may be away for it alone, as the bytes of its attachments. The first error is reported.
func (q *Queue) round(ctx context.Context) (busy bool, err error) {
	taken, busy, err := q.take(ctx)
	for _, t := range taken {
		if failed := q.begin(ctx, t); err == nil {
			err = failed
		}
	}
	return busy, err
}

// take chooses Tasks and marks them as taken by this replica. What replicas that are gone had taken and not begun is taken
// over; what has ended is deleted.
func (q *Queue) take(ctx context.Context) (mine []store.Task, busy bool, err error) {
	lines, err := q.lines(ctx)
	if err != nil {
		return nil, false, err
	}
	under, err := q.store.TakenTasks(ctx, store.System())
	if err != nil || len(lines)+len(under) == 0 {
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
		chosen, err := room.choose(lines, func(line store.TaskLine, most int) ([]store.Task, error) {
			return tx.NextTasks(ctx, store.System(), line, most)
		})
		if err != nil {
			return err
		}
		for _, t := range append(lost, chosen...) {
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

// lines are those that this look is about, without those of agents that are known to be out of reach. Where there are more than it reads, the next begins behind them, so that each has
// its turn.
func (q *Queue) lines(ctx context.Context) ([]store.TaskLine, error) {
	from := q.behind
	lines, err := q.store.TaskLines(ctx, store.System(), from, linesOfLook)
	if err == nil && len(lines) == 0 && from != (store.TaskLine{}) {
		lines, err = q.store.TaskLines(ctx, store.System(), store.TaskLine{}, linesOfLook)
	}
	q.behind = store.TaskLine{}
	if len(lines) == linesOfLook {
		q.behind = lines[len(lines)-1]
	}
	agents := q.sessions.cfg.Agents
	return slices.DeleteFunc(lines, func(l store.TaskLine) bool { return agents.away(l.Tenant, l.AgentID) }), err
}

// room is what is under way, and by whom. A Turn that waits for a person holds no place: the agent does nothing for it. But a
// user who has many of those gets no more, because further questions would be refused, and end their Turns.
type room struct {
	perAgent, askingPerUser int
	agents, owners, asking  map[string]int
}

// askingShare: at a fourth of the questions that a user may have open the queue begins no more. A Turn may ask more than one, and
// those that are at work then may ask too.
const askingShare = 4

// room counts what was taken and has not ended. lost are those without a Turn whose replica is gone; those of this replica
// itself that a failed round left are lost too.
func (q *Queue) room(ctx context.Context, tx store.Tx) (r room, lost []store.Task, err error) {
	r = room{q.limits.TasksPerAgent, max(1, q.limits.QuestionsPerUser/askingShare), make(map[string]int), make(map[string]int), make(map[string]int)}
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
		case t.Turn == "" && (t.Gone || t.Replica == q.replica):
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

func ownerOf(tenant, user string) string { return tenant + "\x00" + user }

// waitingLine is a line and the first of its Tasks that could be begun.
type waitingLine struct {
	store.TaskLine
	tasks []store.Task
	read  bool
}

// choose picks what there is room for: of the user who has least under way, then of the one who waits the longest, and of that
// user's Tasks by priority and then by age. One user's ten thousand Tasks so delay another's first by one, whatever their
// priorities. next reads a line; the lines of agents without room are not read.
func (r room) choose(lines []store.TaskLine, next func(line store.TaskLine, most int) ([]store.Task, error)) (chosen []store.Task, err error) {
	perAgent := make(map[string][]*waitingLine)
	for _, line := range lines {
		if r.agents[line.AgentID] < r.perAgent && r.asking[ownerOf(line.Tenant, line.User)] < r.askingPerUser {
			perAgent[line.AgentID] = append(perAgent[line.AgentID], &waitingLine{TaskLine: line})
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(perAgent)) {
		more, err := r.chooseOf(agent, perAgent[agent], next)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, more...)
	}
	return chosen, nil
}

// chooseOf is choose for one agent.
func (r room) chooseOf(agent string, lines []*waitingLine, next func(line store.TaskLine, most int) ([]store.Task, error)) (chosen []store.Task, err error) {
	better := func(a, b *waitingLine) int {
		return cmp.Or(cmp.Compare(r.owners[ownerOf(a.Tenant, a.User)], r.owners[ownerOf(b.Tenant, b.User)]), cmp.Compare(a.Oldest, b.Oldest))
	}
	for r.agents[agent] < r.perAgent && len(lines) > 0 {
		best := slices.MinFunc(lines, better)
		if !best.read {
			if best.tasks, err = next(best.TaskLine, r.perAgent-r.agents[agent]); err != nil {
				return nil, err
			}
			best.read = true
		}
		if len(best.tasks) == 0 {
			lines = slices.DeleteFunc(lines, func(l *waitingLine) bool { return l == best })
			continue
		}
		chosen, best.tasks = append(chosen, best.tasks[0]), best.tasks[1:]
		r.agents[agent]++
		r.owners[ownerOf(best.Tenant, best.User)]++
	}
	return chosen, nil
}

// passes reports whether a refusal ends by itself: the Task waits on.
func passes(refusal *fault.Error) bool {
	switch refusal.Code {
	case RefusedTooManyTurns, RefusedRunInProgress, RefusedTenantFull:
		return true
	}
	return false
}

// mayPass reports whether an error that is no refusal may end by itself.
func mayPass(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrFenced) ||
		errors.Is(err, store.ErrConflict)
}

// begin makes a Task a Turn.
func (q *Queue) begin(ctx context.Context, t store.Task) error {
	t, err := q.store.Task(ctx, store.System(), t.ID)
	if errors.Is(err, store.ErrNotFound) { // gone with its thread
		return nil
	}
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
		Traceparent: body.Traceparent, Tracestate: body.Tracestate, Channel: true, Callback: body.Channel != "",
		task: &taskStart{queue: q, task: t, channel: body.Channel}, shared: body.Shared,
	})
	var refused *fault.Error
	switch {
	case errors.As(err, &refused) && passes(refused):
		return q.move(ctx, store.TaskMove{ID: t.ID, From: store.TaskTaken, To: store.TaskWaiting})
	case errors.As(err, &refused):
		return q.fail(ctx, t, refused)
	case errors.Is(err, errTaskGone):
		return nil
	case err != nil && mayPass(ctx, err): // the next round finds it without a Turn
		return err
	case err != nil: // as the bytes of an attachment that are gone: it would be tried for ever, in a place of its agent
		q.logger.Error("a task cannot be begun", slog.String("task_id", t.ID), slog.Any("error", err))
		return q.fail(ctx, t, fault.New(CodeTaskUnreadable, "The request of this task, or what it names, cannot be read any more."))
	case reply.Run.ID != t.ID: // no Turn was made, and none would be the next time
		return q.fail(ctx, t, fault.New(RefusedRunIDConflict, "This request, or its message, is one that the thread has from elsewhere."))
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
