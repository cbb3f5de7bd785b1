package storetest

import (
	"bytes"

	"aqueduct/store"
)

func readEvents(env *storeEnv, sessionID string, after int64, maxBytes int) []store.EventRow {
	env.Helper()
	rows, err := env.s.Events(env.ctx, store.System(), sessionID, after, maxBytes)
	env.ok(err)
	return rows
}

func testEvents(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), 0)
	same(env, len(readEvents(env, s.ID, 0, 1<<20)), 0)
	rows := []store.EventRow{row(s.ID, 3, 3), row(s.ID, 4, 1), row(s.ID, 9, 5)}
	rows[1].Data = []byte("\x00\xff not text at all \u2028")
	env.commit(store.Batch{Events: []store.EventRow{rows[0], row(other.ID, 1, 1)}})
	env.commit(store.Batch{Events: rows[1:]}) // two rows of one Session in one Batch
	same(env, readEvents(env, s.ID, 0, 1<<20), rows)
	same(env, readEvents(env, s.ID, 2, 1<<20), rows) // a row may begin before the position
	same(env, readEvents(env, s.ID, 3, 1<<20), rows[1:])
	same(env, readEvents(env, s.ID, 5, 1<<20), rows[2:])
	same(env, len(readEvents(env, s.ID, 9, 1<<20)), 0)
	same(env, len(readEvents(env, s.ID, 1<<50, 1<<20)), 0)
	same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), 9)
	same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), other.ID)), 1)
}

// testEventChain checks a row that does not begin where the log of its Session ends. It is refused with its whole Batch, for
// any writer.
func testEventChain(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	rows := []store.EventRow{row(s.ID, 3, 3), row(s.ID, 5, 2)}
	env.commit(store.Batch{Events: rows})
	for name, wrong := range map[string]store.EventRow{
		"behind a hole":            row(s.ID, 7, 1),
		"over the last row":        row(s.ID, 7, 3),
		"over both rows":           row(s.ID, 7, 7),
		"within the last row":      row(s.ID, 6, 2),
		"in place of the first":    row(s.ID, 2, 2),
		"at the last row's place":  row(s.ID, 5, 1),
		"before the end of it all": row(s.ID, 4, 1),
	} {
		env.Log(name)
		env.refuse(store.ErrConflict, store.Batch{Events: []store.EventRow{row(other.ID, 1, 1), wrong}})
		same(env, readEvents(env, s.ID, 0, 1<<20), rows)
		same(env, len(readEvents(env, other.ID, 0, 1<<20)), 0)
	}
	env.refuse(store.ErrConflict, store.Batch{Events: []store.EventRow{row(other.ID, 2, 1)}}) // the first row is no exception
	env.commit(store.Batch{Events: []store.EventRow{row(s.ID, 7, 2), row(other.ID, 1, 1)}})
}

func testEventBudget(env *storeEnv) {
	s := env.session(alice())
	for seq := range int64(20) {
		r := row(s.ID, seq+1, 1)
		r.Data = bytes.Repeat([]byte{'x'}, 1000)
		env.commit(store.Batch{Events: []store.EventRow{r}})
	}
	same(env, len(readEvents(env, s.ID, 0, 1)), 1)
	same(env, len(readEvents(env, s.ID, 0, 0)), 1)
	same(env, len(readEvents(env, s.ID, 0, 1000)), 1)
	same(env, len(readEvents(env, s.ID, 0, 1001)), 2)
	same(env, len(readEvents(env, s.ID, 0, 10_000)), 10)
	same(env, len(readEvents(env, s.ID, 15, 10_000)), 5)
	// Going on from where an answer ended meets every row once.
	after, rows := int64(0), 0
	for {
		part := readEvents(env, s.ID, after, 3500)
		if len(part) == 0 {
			break
		}
		rows += len(part)
		after = part[len(part)-1].LastSeq
	}
	same(env, rows, 20)
}

func testEventMarks(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	mark := func() string {
		env.Helper()
		return got[string](env)(env.s.LastCursor(env.ctx, store.System(), s.ID))
	}
	same(env, mark(), "")
	rows := []store.EventRow{row(s.ID, 1, 1), row(s.ID, 2, 1), row(s.ID, 3, 1), row(s.ID, 4, 1)}
	rows[1].Cursor, rows[2].Cursor = "p1:7", "p1:10"
	theirs := row(other.ID, 9, 9)
	theirs.Cursor = "p1:99"
	env.commit(store.Batch{Events: []store.EventRow{rows[0], theirs}})
	same(env, mark(), "")
	env.commit(store.Batch{Events: rows[1:2]}) // with events alone, and in a pipeline with more
	same(env, mark(), "p1:7")
	env.commit(store.Batch{Events: rows[2:], Moves: []store.Move{store.SessionMove{ID: s.ID, UpdatedAt: at(1)}}})
	same(env, mark(), "p1:10") // the newest row has none
	same(env, readEvents(env, s.ID, 0, 1<<20), rows)
	_, err := env.s.LastCursor(env.ctx, store.System(), "nobody's")
	env.is(err, store.ErrNotFound)
}
