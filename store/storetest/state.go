package storetest

import "aqueduct/store"

func testStateChanges(env *storeEnv) {
	s := env.session(alice())
	var want []store.StateChange
	for i := range 4 {
		run := env.run(s.ID, env.turn(s.ID, store.TurnDone).ID, store.RunFinished)
		if i == 1 {
			continue // changed nothing
		}
		c := store.StateChange{RunID: run.ID, Changes: []byte(`{"key":["","a\u0000"]}`)}
		env.move(store.RunStateChanges{ID: c.RunID, Changes: c.Changes})
		want = append(want, c)
	}
	env.move(store.RunStateChanges{ID: env.run(env.session(alice()).ID, "t", store.RunFinished).ID, Changes: []byte(`{}`)}) // of another
	changes := func(first string) []store.StateChange {
		env.Helper()
		return got[[]store.StateChange](env)(env.s.StateChanges(env.ctx, store.System(), s.ID, first))
	}
	same(env, changes(""), want)
	same(env, changes(want[1].RunID), want[1:])
	same(env, len(changes("~")), 0)
}

func testNewestRunOf(env *storeEnv) {
	s := env.session(alice())
	old, newer := env.run(s.ID, "t1", store.RunFinished), env.run(s.ID, "t2", store.RunFinished)
	add := func(runID, name, role string, output bool) store.Message {
		env.Helper()
		m := store.Message{ID: env.id(), SessionID: s.ID, RunID: runID, ExternalID: name, Role: role, Output: output,
			Data: []byte(`{"id":"` + name + `"}`), CreatedAt: at(1)}
		env.tx(func(tx store.Tx) error { return tx.InsertMessage(env.ctx, m) })
		return m
	}
	add(old.ID, "u1", "user", false)
	add(old.ID, "a1", "assistant", true)
	last := add(old.ID, "a2", "assistant", true)
	add(old.ID, "t1", "tool", true)
	add(newer.ID, "u2", "user", false)
	newest := func(ids ...string) string {
		env.Helper()
		return got[string](env)(env.s.NewestRunOf(env.ctx, store.System(), s.ID, ids))
	}
	many := make([]string, 600)
	for i := range many {
		many[i] = unused(i)
	}
	same(env, newest("u1", "a1"), old.ID)
	same(env, newest(append([]string{"u2"}, append(many, "a1")...)...), newer.ID)
	same(env, newest("none"), "")
	same(env, newest(), "")
	same(env, got[store.Message](env)(env.s.LastAnswer(env.ctx, store.System(), s.ID, old.ID)), last)
	_, err := env.s.LastAnswer(env.ctx, store.System(), s.ID, newer.ID)
	env.is(err, store.ErrNotFound)
}

func testBrokenRuns(env *storeEnv) {
	s := env.session(alice())
	env.run(s.ID, "t1", store.RunFinished)
	turn := env.turn(s.ID, store.TurnRunning)
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnFailed, ErrorCode: "c", ErrorMessage: "m"})
	failed := store.BrokenRun{Run: env.run(s.ID, turn.ID, store.RunFailed), ErrorMessage: "m"}
	cancelled := store.BrokenRun{Run: env.run(s.ID, "t3", store.RunCancelled)}
	env.run(s.ID, "t4", store.RunInterrupted)
	env.run(env.session(alice()).ID, "t5", store.RunFailed)
	broken := func(first, last string) []store.BrokenRun {
		env.Helper()
		return got[[]store.BrokenRun](env)(env.s.BrokenRuns(env.ctx, store.System(), s.ID, first, last))
	}
	same(env, broken("", "~"), []store.BrokenRun{failed, cancelled})
	same(env, broken(cancelled.ID, cancelled.ID), []store.BrokenRun{cancelled})
}

func testNoteDropped(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	note := func(id string) (first bool) {
		env.Helper()
		env.tx(func(tx store.Tx) (err error) { first, err = tx.NoteDropped(env.ctx, id); return err })
		return first
	}
	same(env, []bool{note(s.ID), note(s.ID), note(other.ID), note("none")}, []bool{true, false, true, false})
}
