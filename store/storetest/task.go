package storetest

import (
	"errors"
	"slices"

	"aqueduct/store"
)

// taskOf is a Task of a user in a thread.
func taskOf(env *storeEnv, who store.Principal, thread string) store.Task {
	id := env.id()
	return store.Task{
		ID: id, Tenant: who.Tenant, User: who.User, RequestID: "request of " + id, ThreadID: thread, AgentID: "a", Status: store.TaskWaiting,
		Body: []byte(`{"x":1}`), BodyHash: []byte("h"), CreatedAt: at(1),
	}
}

// testTasks: what waits is chosen by priority and age, some of each user and one of each thread; what was taken shows its Turn
// and whether its replica lives.
func testTasks(env *storeEnv) {
	insert := func(t store.Task) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error { return errors.Join(tx.LockQueue(env.ctx), tx.InsertTask(env.ctx, t)) })
	}
	first, second, third, urgent, other := taskOf(env, alice(), "t1"), taskOf(env, alice(), "t1"), taskOf(env, alice(), "t2"), taskOf(env, alice(), "t3"), taskOf(env, bob(), "t1")
	urgent.Priority = 5
	for _, t := range []store.Task{first, second, third, urgent, other} {
		if err := insert(t); err != nil {
			env.Fatal(err)
		}
	}
	again := first
	again.ID = env.id()
	if err := insert(again); !errors.Is(err, store.ErrConflict) {
		env.Errorf("a second task of one request_id: %v", err)
	}
	same(env, got[store.Task](env)(env.s.Task(env.ctx, store.As(alice()), first.ID)), first)
	same(env, got[store.Task](env)(env.s.Task(env.ctx, store.As(alice()), first.RequestID)).ID, first.ID)
	same(env, got[int](env)(env.s.CountTasks(env.ctx, store.As(alice()), 10)), 4)
	same(env, got[int](env)(env.s.CountTasks(env.ctx, store.As(alice()), 3)), 3)
	lineOf := func(who store.Principal, oldest string) store.TaskLine {
		return store.TaskLine{AgentID: "a", Tenant: who.Tenant, User: who.User, Oldest: oldest}
	}
	lines := func(after store.TaskLine, most int) []store.TaskLine {
		env.Helper()
		return got[[]store.TaskLine](env)(env.s.TaskLines(env.ctx, store.System(), after, most))
	}
	hers, his := lineOf(alice(), first.ID), lineOf(bob(), other.ID)
	same(env, lines(store.TaskLine{}, 10), []store.TaskLine{hers, his})
	same(env, lines(store.TaskLine{}, 1), []store.TaskLine{hers})
	same(env, lines(hers, 10), []store.TaskLine{his})
	same(env, len(lines(his, 10)), 0)
	next := func(most int) (list []string) {
		env.Helper()
		for _, line := range lines(store.TaskLine{}, 10) {
			for _, t := range got[[]store.Task](env)(env.s.NextTasks(env.ctx, store.System(), line, most)) {
				list = append(list, t.ID)
			}
		}
		return list
	}
	same(env, next(10), []string{urgent.ID, first.ID, third.ID, other.ID})
	same(env, next(1), []string{urgent.ID, other.ID})
	testBusyThread(env, third, func() []string { return next(10) }, []string{urgent.ID, first.ID, third.ID, other.ID})
	move := func(m store.TaskMove, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.MoveTask(env.ctx, m)), want)
			return nil
		})
	}
	move(store.TaskMove{ID: first.ID, From: store.TaskWaiting, To: store.TaskTaken, Replica: env.replica}, true)
	move(store.TaskMove{ID: first.ID, From: store.TaskWaiting, To: store.TaskTaken, Replica: env.replica}, false)
	move(store.TaskMove{ID: other.ID, From: store.TaskWaiting, To: store.TaskTaken, Replica: "gone"}, true)
	same(env, next(10), []string{urgent.ID, third.ID})
	taken := got[[]store.TakenTask](env)(env.s.TakenTasks(env.ctx, store.System()))
	if len(taken) != 2 || taken[0].ID != first.ID || taken[0].Turn != "" || taken[0].Gone || taken[1].ID != other.ID || !taken[1].Gone {
		env.Errorf("taken: %+v", taken)
	}
	env.tx(func(tx store.Tx) error { return tx.DeleteTask(env.ctx, first.ID) })
	same(env, next(10), []string{urgent.ID, second.ID, third.ID})
	move(store.TaskMove{ID: second.ID, From: store.TaskWaiting, To: store.TaskFailed, Code: "c", Message: "m", EndedAt: at(5)}, true)
	env.tx(func(tx store.Tx) error { return tx.DeleteTasksBefore(env.ctx, at(5)) })
	same(env, got[store.Task](env)(env.s.Task(env.ctx, store.System(), second.ID)).Code, "c")
	env.tx(func(tx store.Tx) error {
		return errors.Join(tx.DeleteTasksBefore(env.ctx, at(6)), tx.DeleteTasksOf(env.ctx, "acme", alice().User, "t2"))
	})
	for _, id := range []string{first.ID, second.ID, third.ID} {
		if _, err := env.s.Task(env.ctx, store.System(), id); !errors.Is(err, store.ErrNotFound) {
			env.Errorf("%s is still there: %v", id, err)
		}
	}
	env.tx(func(tx store.Tx) error {
		return errors.Join(tx.DeleteTask(env.ctx, other.ID), tx.DeleteTask(env.ctx, urgent.ID))
	})
}

// testBusyThread: a Turn of a Task's thread that is not over, whatever it waits for, keeps the Task from being next.
func testBusyThread(env *storeEnv, t store.Task, next func() []string, all []string) {
	env.Helper()
	session := store.Session{ID: env.id(), Tenant: t.Tenant, User: t.User, ExternalID: t.ThreadID, AgentID: "demo", CreatedAt: at(1), UpdatedAt: at(1)}
	env.tx(func(tx store.Tx) error { return tx.InsertSession(env.ctx, session) })
	without := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == t.ID })
	turn := env.turn(session.ID, store.TurnQueued)
	same(env, next(), without)
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning})
	same(env, next(), without)
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnPausedApproval})
	same(env, next(), without)
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnPausedApproval}, To: store.TurnCancelled, EndedAt: at(2)})
	same(env, next(), all)
}
