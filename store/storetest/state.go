package storetest

import "aqueduct/store"

func testStateChanges(w *world) {
	s := w.session(alice())
	var want []store.StateChange
	for i := range 4 {
		run := w.run(s.ID, w.turn(s.ID, store.TurnDone).ID, store.RunFinished)
		if i == 1 {
			continue // changed nothing
		}
		c := store.StateChange{RunID: run.ID, Changes: []byte(`{"key":["","a\u0000"]}`)}
		w.move(store.RunStateChanges{ID: c.RunID, Changes: c.Changes})
		want = append(want, c)
	}
	w.move(store.RunStateChanges{ID: w.run(w.session(alice()).ID, "t", store.RunFinished).ID, Changes: []byte(`{}`)}) // of another
	changes := func(first string) []store.StateChange {
		w.Helper()
		return got[[]store.StateChange](w)(w.s.StateChanges(w.ctx, store.System(), s.ID, first))
	}
	same(w, changes(""), want)
	same(w, changes(want[1].RunID), want[1:])
	same(w, len(changes("~")), 0)
}

func testNewestRunOf(w *world) {
	s := w.session(alice())
	old, newer := w.run(s.ID, "t1", store.RunFinished), w.run(s.ID, "t2", store.RunFinished)
	add := func(runID, name, role string, output bool) store.Message {
		w.Helper()
		m := store.Message{ID: w.id(), SessionID: s.ID, RunID: runID, ExternalID: name, Role: role, Output: output,
			Data: []byte(`{"id":"` + name + `"}`), CreatedAt: at(1)}
		w.tx(func(tx store.Tx) error { return tx.InsertMessage(w.ctx, m) })
		return m
	}
	add(old.ID, "u1", "user", false)
	add(old.ID, "a1", "assistant", true)
	last := add(old.ID, "a2", "assistant", true)
	add(old.ID, "t1", "tool", true)
	add(newer.ID, "u2", "user", false)
	newest := func(ids ...string) string {
		w.Helper()
		return got[string](w)(w.s.NewestRunOf(w.ctx, store.System(), s.ID, ids))
	}
	many := make([]string, 600)
	for i := range many {
		many[i] = unused(i)
	}
	same(w, newest("u1", "a1"), old.ID)
	same(w, newest(append([]string{"u2"}, append(many, "a1")...)...), newer.ID)
	same(w, newest("none"), "")
	same(w, newest(), "")
	same(w, got[store.Message](w)(w.s.LastAnswer(w.ctx, store.System(), s.ID, old.ID)), last)
	_, err := w.s.LastAnswer(w.ctx, store.System(), s.ID, newer.ID)
	w.is(err, store.ErrNotFound)
}

func testBrokenRuns(w *world) {
	s := w.session(alice())
	w.run(s.ID, "t1", store.RunFinished)
	turn := w.turn(s.ID, store.TurnRunning)
	w.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnFailed, ErrorCode: "c", ErrorMessage: "m"})
	failed := store.BrokenRun{Run: w.run(s.ID, turn.ID, store.RunFailed), ErrorMessage: "m"}
	cancelled := store.BrokenRun{Run: w.run(s.ID, "t3", store.RunCancelled)}
	w.run(s.ID, "t4", store.RunInterrupted)
	w.run(w.session(alice()).ID, "t5", store.RunFailed)
	broken := func(first, last string) []store.BrokenRun {
		w.Helper()
		return got[[]store.BrokenRun](w)(w.s.BrokenRuns(w.ctx, store.System(), s.ID, first, last))
	}
	same(w, broken("", "~"), []store.BrokenRun{failed, cancelled})
	same(w, broken(cancelled.ID, cancelled.ID), []store.BrokenRun{cancelled})
}

func testNoteDropped(w *world) {
	s, other := w.session(alice()), w.session(alice())
	note := func(id string) (first bool) {
		w.Helper()
		w.tx(func(tx store.Tx) (err error) { first, err = tx.NoteDropped(w.ctx, id); return err })
		return first
	}
	same(w, []bool{note(s.ID), note(s.ID), note(other.ID), note("none")}, []bool{true, false, true, false})
}
