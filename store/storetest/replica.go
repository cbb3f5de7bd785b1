package storetest

import (
	"aqueduct/store"
)

func testReplicas(w *world) {
	other := w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: other, Name: "two"}))
	beats := func() map[string]int64 {
		all := map[string]int64{}
		for _, r := range got[[]store.Replica](w)(w.s.ListReplicas(w.ctx)) {
			if r.Fenced || r.Name == "" || r.SeenAt.IsZero() {
				w.Errorf("listed: %+v", r)
			}
			all[r.ID] = r.Beat
		}
		return all
	}
	same(w, beats(), map[string]int64{w.replica: 0, other: 0})
	w.ok(w.s.Beat(w.ctx, other))
	w.ok(w.s.Beat(w.ctx, other))
	same(w, beats(), map[string]int64{w.replica: 0, other: 2})

	again := w.id() // a restart under the same name
	w.ok(w.s.Register(w.ctx, store.Replica{ID: again, Name: "two"}))
	same(w, beats(), map[string]int64{w.replica: 0, again: 0})
	w.is(w.s.Beat(w.ctx, other), store.ErrFenced)
	w.is(w.s.Beat(w.ctx, "never registered"), store.ErrFenced)
	w.ok(w.s.Fence(w.ctx, again))
	w.ok(w.s.Fence(w.ctx, again))
	same(w, beats(), map[string]int64{w.replica: 0})
}

// testFenced: whatever a replaced replica sends is refused whole.
func testFenced(w *world) {
	s := w.session(alice())
	turn := w.turn(s.ID, store.TurnQueued)
	w.commit(store.Batch{Events: []store.EventRow{row(s.ID, 1, 1)}})
	before := w.replica
	w.replica = w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: w.replica, Name: "one"}))
	move := store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning}
	record := store.Record{ID: w.id(), SessionID: s.ID, TurnID: "t", Source: store.SourceACP, Type: "x", TS: at(1)}
	for _, b := range []store.Batch{
		{},
		{Events: []store.EventRow{row(s.ID, 2, 1)}},
		{Moves: []store.Move{move}},
		{Records: []store.Record{record}},
		{Events: []store.EventRow{row(s.ID, 2, 1)}, Records: []store.Record{record}, Moves: []store.Move{move}},
	} {
		for _, replica := range []string{before, "never registered", ""} {
			b.Replica = replica
			_, err := w.s.Commit(w.ctx, &b)
			w.is(err, store.ErrFenced)
		}
	}
	same(w, got[int64](w)(w.s.LastSeq(w.ctx, store.System(), s.ID)), 1)
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)), turn)
	w.commit(store.Batch{Events: []store.EventRow{row(s.ID, 2, 1)}, Records: []store.Record{record}, Moves: []store.Move{move}})
}
