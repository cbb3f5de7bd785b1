package storetest

import (
	"aqueduct/store"
)

func testReplicas(env *storeEnv) {
	other := env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: other, Name: "two"}))
	beats := func() map[string]int64 {
		all := map[string]int64{}
		for _, r := range got[[]store.Replica](env)(env.s.ListReplicas(env.ctx)) {
			if r.Fenced || r.Name == "" || r.SeenAt.IsZero() {
				env.Errorf("listed: %+v", r)
			}
			all[r.ID] = r.Beat
		}
		return all
	}
	same(env, beats(), map[string]int64{env.replica: 0, other: 0})
	env.ok(env.s.Beat(env.ctx, other))
	env.ok(env.s.Beat(env.ctx, other))
	same(env, beats(), map[string]int64{env.replica: 0, other: 2})

	again := env.id() // a restart under the same name
	env.ok(env.s.Register(env.ctx, store.Replica{ID: again, Name: "two"}))
	same(env, beats(), map[string]int64{env.replica: 0, again: 0})
	env.is(env.s.Beat(env.ctx, other), store.ErrFenced)
	env.is(env.s.Beat(env.ctx, "never registered"), store.ErrFenced)
	env.ok(env.s.Fence(env.ctx, again))
	env.ok(env.s.Fence(env.ctx, again))
	same(env, beats(), map[string]int64{env.replica: 0})
}

// testFenced: whatever a replaced replica sends is refused whole.
func testFenced(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnQueued)
	env.commit(store.Batch{Events: []store.EventRow{row(s.ID, 1, 1)}})
	before := env.replica
	env.replica = env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: env.replica, Name: "one"}))
	move := store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning}
	record := store.Record{ID: env.id(), SessionID: s.ID, TurnID: "t", Source: store.SourceACP, Type: "x", TS: at(1)}
	for _, b := range []store.Batch{
		{},
		{Events: []store.EventRow{row(s.ID, 2, 1)}},
		{Moves: []store.Move{move}},
		{Records: []store.Record{record}},
		{Events: []store.EventRow{row(s.ID, 2, 1)}, Records: []store.Record{record}, Moves: []store.Move{move}},
	} {
		for _, replica := range []string{before, "never registered", ""} {
			b.Replica = replica
			_, err := env.s.Commit(env.ctx, &b)
			env.is(err, store.ErrFenced)
		}
	}
	same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), 1)
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)), turn)
	env.commit(store.Batch{Events: []store.EventRow{row(s.ID, 2, 1)}, Records: []store.Record{record}, Moves: []store.Move{move}})
}
