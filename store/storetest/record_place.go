package storetest

import "aqueduct/store"

// testRecordsOfSession: all Records of a Session, of whatever Turn, have positions that a reader
// can go on from; one that is committed later comes later, though its id and time are older.
func testRecordsOfSession(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	record := func(session, turn string, ms int64) store.Record {
		return store.Record{ID: env.id(), SessionID: session, TurnID: turn, Source: store.SourceProxy, Type: "x", AtSeq: 3, TS: at(ms), Payload: []byte(`{"a":1}`)}
	}
	late := record(s.ID, "", 1) // made first, kept last
	first, second, foreign := record(s.ID, "t1", 2), record(s.ID, "", 2), record(other.ID, "t1", 1)
	third := record(s.ID, "t2", 9)
	env.commit(store.Batch{Records: []store.Record{third, second, first, foreign}})
	page := func(after int64, limit int) []store.PlacedRecord {
		env.Helper()
		return got[[]store.PlacedRecord](env)(env.s.RecordsOfSession(env.ctx, store.As(alice()), s.ID, after, limit))
	}
	unsequenced := func() bool {
		env.Helper()
		return got[bool](env)(env.s.RecordsUnsequenced(env.ctx, store.As(alice()), s.ID, ""))
	}
	sequence := func(limit int, want int64) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			if _, err := tx.LockSession(env.ctx, store.System(), s.ID); err != nil {
				return err
			}
			same(env, got[int64](env)(tx.SequenceRecords(env.ctx, s.ID, limit)), want)
			return nil
		})
	}
	same(env, len(page(0, 10)), 0)
	same(env, unsequenced(), true)
	sequence(2, 2)
	same(env, unsequenced(), true)
	sequence(2, 1)
	sequence(2, 0)
	same(env, unsequenced(), false)
	same(env, page(0, 10), []store.PlacedRecord{{Record: first, Pos: 1}, {Record: second, Pos: 2}, {Record: third, Pos: 3}})
	same(env, page(1, 1), []store.PlacedRecord{{Record: second, Pos: 2}})
	ofTurn := func(turn string, after int64) []store.PlacedRecord {
		env.Helper()
		return got[[]store.PlacedRecord](env)(env.s.PlacedRecordsOfTurn(env.ctx, store.As(alice()), turn, after, 10))
	}
	same(env, ofTurn("t1", 0), []store.PlacedRecord{{Record: first, Pos: 1}}) // the other Session's has no position yet
	same(env, len(ofTurn("t1", 1)), 0)
	same(env, ofTurn("t2", 1), []store.PlacedRecord{{Record: third, Pos: 3}})
	same(env, got[bool](env)(env.s.RecordsUnsequenced(env.ctx, store.As(alice()), s.ID, "t2")), false)
	same(env, got[bool](env)(env.s.RecordsUnsequenced(env.ctx, store.System(), other.ID, "t1")), true)
	env.tx(func(tx store.Tx) error { return tx.InsertRecord(env.ctx, late) })
	same(env, len(page(3, 10)), 0)
	sequence(10, 1)
	same(env, page(3, 10), []store.PlacedRecord{{Record: late, Pos: 4}})
	same(env, got[bool](env)(env.s.RecordsUnsequenced(env.ctx, store.System(), other.ID, "")), true)
}

// testRunsWithin: the Runs whose slices touch a stretch of the log.
func testRunsWithin(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnRunning)
	var ids []string
	for i := range int64(4) { // 1–10, 11–20, 21–30 and one that goes on
		r := env.run(s.ID, turn.ID, store.RunReserved)
		env.move(store.RunMove{ID: r.ID, From: store.RunReserved, To: store.RunRunning, FirstSeq: 10*i + 1})
		if i < 3 {
			env.move(store.RunMove{ID: r.ID, From: store.RunRunning, To: store.RunFinished, LastSeq: 10*i + 10})
		}
		ids = append(ids, r.ID)
	}
	env.run(s.ID, turn.ID, store.RunReserved)
	for _, c := range []struct {
		from, to int64
		want     []string
	}{{1, 5, ids[:1]}, {10, 11, ids[:2]}, {12, 25, ids[1:3]}, {31, 31, ids[3:]}, {1, 99, ids}, {20, 20, ids[1:2]}} {
		rows := got[[]store.Run](env)(env.s.RunsWithin(env.ctx, store.As(alice()), s.ID, c.from, c.to))
		same(env, idsOf(rows, func(r store.Run) string { return r.ID }), c.want)
	}
}
