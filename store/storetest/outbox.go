package storetest

import (
	"sync/atomic"

	"aqueduct/store"
)

func (w *world) due(ms int64, limit int) []string {
	w.Helper()
	return idsOf(got[[]store.OutboxItem](w)(w.s.OutboxDue(w.ctx, store.System(), at(ms), limit)), func(i store.OutboxItem) string { return i.ID })
}

func (w *world) outbox(next int64) store.OutboxItem {
	w.Helper()
	i := store.OutboxItem{ID: w.id(), Kind: "webhook", Target: "https://x", Payload: []byte(`{"b":1,"a":2}`), CreatedAt: at(1), NextAt: at(next)}
	w.tx(func(tx store.Tx) error { return tx.InsertOutbox(w.ctx, i) })
	return i
}

// claim is ClaimOutbox in a transaction of its own.
func (w *world) claim(id string, now, until int64) (made bool, err error) {
	err = w.s.InTx(w.ctx, func(tx store.Tx) (err error) { made, err = tx.ClaimOutbox(w.ctx, id, at(now), at(until)); return err })
	return made, err
}

func testOutbox(w *world) {
	late := w.outbox(20)
	soon := store.OutboxItem{ID: w.id(), Kind: "webhook", Target: "y", Payload: []byte(`{"c":1}`), CreatedAt: at(1), NextAt: at(10)}
	w.move(store.InsertOutbox{Item: soon})
	w.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertOutbox{Item: soon}}})
	same(w, got[[]store.OutboxItem](w)(w.s.OutboxDue(w.ctx, store.System(), at(10), 0)), []store.OutboxItem{soon})
	same(w, w.due(20, 0), []string{soon.ID, late.ID})
	same(w, w.due(20, 1), []string{soon.ID})
	same(w, len(w.due(9, 0)), 0)

	claims := func(id string, now int64, want bool) {
		w.Helper()
		same(w, got[bool](w)(w.claim(id, now, now+5)), want)
	}
	claims(soon.ID, 9, false)
	claims(soon.ID, 10, true)
	claims(soon.ID, 14, false)
	same(w, len(w.due(14, 0)), 0)
	same(w, w.due(15, 0), []string{soon.ID})
	claims(soon.ID, 15, true) // its claimer died
	w.tx(func(tx store.Tx) error { return tx.OutboxRetry(w.ctx, soon.ID, at(18), "503\x00") })
	claims(soon.ID, 17, false)
	soon.Tries, soon.NextAt, soon.LastError = 2, at(18), "503\ufffd"
	same(w, got[[]store.OutboxItem](w)(w.s.OutboxDue(w.ctx, store.System(), at(18), 0)), []store.OutboxItem{soon})
	claims(soon.ID, 18, true)
	w.tx(func(tx store.Tx) error { return tx.OutboxDone(w.ctx, soon.ID, at(19)) })
	w.tx(func(tx store.Tx) error { return tx.OutboxRetry(w.ctx, soon.ID, at(19), "late") }) // done stays done
	claims(soon.ID, 99, false)
	same(w, w.due(99, 0), []string{late.ID})
}

// testOneClaimsOutbox: of many at once one delivers.
func testOneClaimsOutbox(w *world) {
	id := w.outbox(1).ID
	var made atomic.Int64
	w.ok(atOnce(20, func(int) error {
		mine, err := w.claim(id, 5, 10)
		if mine {
			made.Add(1)
		}
		return err
	}))
	same(w, made.Load(), 1)
}

// testDropOutbox: what was told long ago goes, and what is never to be told; what waits stays,
// however old.
func testDropOutbox(w *world) {
	const never = 1 << 40
	done := func(ms int64) {
		id := w.outbox(1).ID
		w.tx(func(tx store.Tx) error { return tx.OutboxDone(w.ctx, id, at(ms)) })
	}
	done(10)
	done(19)
	done(20)
	w.outbox(never) // made at 1
	waits := w.outbox(never - 1)
	drop := func(before int64, limit int) (n int64) {
		w.Helper()
		w.tx(func(tx store.Tx) (err error) { n, err = tx.DropOutbox(w.ctx, at(before), at(never), limit); return err })
		return n
	}
	same(w, drop(1, 9), 0)
	same(w, drop(20, 2), 2)
	same(w, drop(20, 2), 1)
	same(w, drop(20, 2), 0)
	same(w, drop(21, 2), 1)
	same(w, w.due(never, 9), []string{waits.ID})
}
