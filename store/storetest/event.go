package storetest

import (
	"bytes"

	"aqueduct/store"
)

func (w *world) events(sessionID string, after int64, maxBytes int) []store.EventRow {
	w.Helper()
	rows, err := w.s.Events(w.ctx, store.System(), sessionID, after, maxBytes)
	w.ok(err)
	return rows
}

func testEvents(w *world) {
	s, other := w.session(alice()), w.session(alice())
	same(w, got[int64](w)(w.s.LastSeq(w.ctx, store.System(), s.ID)), 0)
	same(w, len(w.events(s.ID, 0, 1<<20)), 0)
	rows := []store.EventRow{row(s.ID, 3, 3), row(s.ID, 4, 1), row(s.ID, 9, 5)}
	rows[1].Data = []byte("\x00\xff not text at all \u2028")
	w.commit(store.Batch{Events: []store.EventRow{rows[0], row(other.ID, 1, 1)}})
	w.commit(store.Batch{Events: rows[1:]}) // two rows of one Session in one Batch
	same(w, w.events(s.ID, 0, 1<<20), rows)
	same(w, w.events(s.ID, 2, 1<<20), rows) // a row may begin before the position
	same(w, w.events(s.ID, 3, 1<<20), rows[1:])
	same(w, w.events(s.ID, 5, 1<<20), rows[2:])
	same(w, len(w.events(s.ID, 9, 1<<20)), 0)
	same(w, len(w.events(s.ID, 1<<50, 1<<20)), 0)
	same(w, got[int64](w)(w.s.LastSeq(w.ctx, store.System(), s.ID)), 9)
	same(w, got[int64](w)(w.s.LastSeq(w.ctx, store.System(), other.ID)), 1)
}

func testEventHole(w *world) {
	s := w.session(alice())
	w.commit(store.Batch{Events: []store.EventRow{row(s.ID, 2, 2), row(s.ID, 6, 2)}}) // 3 and 4 are not there yet
	same(w, w.events(s.ID, 0, 1<<20), []store.EventRow{row(s.ID, 2, 2)})
	same(w, len(w.events(s.ID, 2, 1<<20)), 0)
	same(w, w.events(s.ID, 4, 1<<20), []store.EventRow{row(s.ID, 6, 2)})
	w.commit(store.Batch{Events: []store.EventRow{row(s.ID, 4, 2)}})
	same(w, len(w.events(s.ID, 0, 1<<20)), 3)
}

func testEventBudget(w *world) {
	s := w.session(alice())
	for seq := range int64(20) {
		r := row(s.ID, seq+1, 1)
		r.Data = bytes.Repeat([]byte{'x'}, 1000)
		w.commit(store.Batch{Events: []store.EventRow{r}})
	}
	same(w, len(w.events(s.ID, 0, 1)), 1)
	same(w, len(w.events(s.ID, 0, 0)), 1)
	same(w, len(w.events(s.ID, 0, 1000)), 1)
	same(w, len(w.events(s.ID, 0, 1001)), 2)
	same(w, len(w.events(s.ID, 0, 10_000)), 10)
	same(w, len(w.events(s.ID, 15, 10_000)), 5)
	// Going on from where an answer ended meets every row once.
	after, rows := int64(0), 0
	for {
		part := w.events(s.ID, after, 3500)
		if len(part) == 0 {
			break
		}
		rows += len(part)
		after = part[len(part)-1].LastSeq
	}
	same(w, rows, 20)
}

func testEventMarks(w *world) {
	s, other := w.session(alice()), w.session(alice())
	mark := func() string {
		w.Helper()
		return got[string](w)(w.s.LastMark(w.ctx, store.System(), s.ID))
	}
	same(w, mark(), "")
	rows := []store.EventRow{row(s.ID, 1, 1), row(s.ID, 2, 1), row(s.ID, 3, 1), row(s.ID, 4, 1)}
	rows[1].Mark, rows[2].Mark = "p1:7", "p1:10"
	theirs := row(other.ID, 9, 9)
	theirs.Mark = "p1:99"
	w.commit(store.Batch{Events: []store.EventRow{rows[0], theirs}})
	same(w, mark(), "")
	w.commit(store.Batch{Events: rows[1:2]}) // with events alone, and in a pipeline with more
	same(w, mark(), "p1:7")
	w.commit(store.Batch{Events: rows[2:], Moves: []store.Move{store.SessionMove{ID: s.ID, UpdatedAt: at(1)}}})
	same(w, mark(), "p1:10") // the newest row has none
	same(w, w.events(s.ID, 0, 1<<20), rows)
	_, err := w.s.LastMark(w.ctx, store.System(), "nobody's")
	w.is(err, store.ErrNotFound)
}
