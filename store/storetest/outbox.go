package storetest

import (
	"slices"
	"sync/atomic"
	"time"

	"aqueduct/store"
)

func dueItemIDs(env *storeEnv, ms int64, limit int) []string {
	env.Helper()
	return idsOf(outboxDue(env, at(ms), limit), func(i store.OutboxItem) string { return i.ID })
}

func insertOutboxItem(env *storeEnv, next int64) store.OutboxItem {
	env.Helper()
	i := store.OutboxItem{ID: env.id(), Kind: "webhook", Target: "https://x", Payload: []byte(`{"b":1,"a":2}`), CreatedAt: at(1), NextAt: at(next)}
	env.tx(func(tx store.Tx) error { return tx.InsertOutbox(env.ctx, i) })
	return i
}

// claimItem is ClaimOutbox in a transaction of its own.
func claimItem(env *storeEnv, i store.OutboxItem, now, until int64) (made bool, err error) {
	err = env.s.InTx(env.ctx, func(tx store.Tx) (err error) { made, err = tx.ClaimOutbox(env.ctx, i, at(now), at(until)); return err })
	return made, err
}

func testOutbox(env *storeEnv) {
	late := insertOutboxItem(env, 20)
	soon := store.OutboxItem{ID: env.id(), Kind: "webhook", Target: "y", Payload: []byte(`{"c":1}`), CreatedAt: at(1), NextAt: at(10)}
	env.move(store.InsertOutbox{Item: soon})
	env.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertOutbox{Item: soon}}})
	same(env, outboxDue(env, at(10), 0), []store.OutboxItem{soon})
	same(env, dueItemIDs(env, 20, 0), []string{soon.ID, late.ID})
	same(env, len(dueItemIDs(env, 20, 1)), 2) // one of each lane
	same(env, len(dueItemIDs(env, 9, 0)), 0)

	read := soon // as a worker read it last
	claims := func(now int64, want bool) {
		env.Helper()
		if same(env, got[bool](env)(claimItem(env, read, now, now+5)), want); want {
			read.Tries++
		}
	}
	claims(9, false)
	claims(10, true)
	claims(14, false)
	same(env, len(dueItemIDs(env, 14, 0)), 0)
	same(env, dueItemIDs(env, 15, 0), []string{soon.ID})
	same(env, got[bool](env)(claimItem(env, soon, 15, 20)), false) // it was tried since it was read
	claims(15, true)                                               // its claimer died
	env.tx(func(tx store.Tx) error { return tx.OutboxRetry(env.ctx, soon.ID, at(18), "503\x00") })
	claims(17, false)
	soon.Tries, soon.NextAt, soon.LastError = 2, at(18), "503\ufffd"
	same(env, outboxDue(env, at(18), 0), []store.OutboxItem{soon})
	claims(18, true)
	env.tx(func(tx store.Tx) error { return tx.OutboxDone(env.ctx, soon.ID, at(19)) })
	env.tx(func(tx store.Tx) error { return tx.OutboxRetry(env.ctx, soon.ID, at(19), "late") }) // done stays done
	claims(99, false)
	same(env, dueItemIDs(env, 99, 0), []string{late.ID})
}

// testOneClaimsOutbox: of many at once one delivers.
func testOneClaimsOutbox(env *storeEnv) {
	item := insertOutboxItem(env, 1)
	var made atomic.Int64
	env.ok(atOnce(20, func(int) error {
		mine, err := claimItem(env, item, 5, 10)
		if mine {
			made.Add(1)
		}
		return err
	}))
	same(env, made.Load(), 1)
}

// testDropOutbox: what was sent long ago goes, and what is never to be sent; what waits stays,
// however old.
func testDropOutbox(env *storeEnv) {
	const never = 1 << 40
	done := func(ms int64) {
		id := insertOutboxItem(env, 1).ID
		env.tx(func(tx store.Tx) error { return tx.OutboxDone(env.ctx, id, at(ms)) })
	}
	done(10)
	done(19)
	done(20)
	insertOutboxItem(env, never) // made at 1
	waits := insertOutboxItem(env, never-1)
	drop := func(before int64, limit int) (n int64) {
		env.Helper()
		env.tx(func(tx store.Tx) (err error) {
			n, err = tx.DropOutbox(env.ctx, at(before), at(never), limit)
			return err
		})
		return n
	}
	same(env, drop(1, 9), 0)
	same(env, drop(20, 2), 2)
	same(env, drop(20, 2), 1)
	same(env, drop(20, 2), 0)
	same(env, drop(21, 2), 1)
	same(env, dueItemIDs(env, never, 9), []string{waits.ID})
}

// outboxDue returns the items that are due, of all lanes, in the order of NextAt.
func outboxDue(env *storeEnv, now time.Time, limit int) (all []store.OutboxItem) {
	env.Helper()
	for _, lane := range got[[]store.OutboxLane](env)(env.s.OutboxLanes(env.ctx, store.System(), "")) {
		all = append(all, got[[]store.OutboxItem](env)(env.s.OutboxDue(env.ctx, store.System(), lane, now, limit))...)
	}
	slices.SortStableFunc(all, func(a, b store.OutboxItem) int { return a.NextAt.Compare(b.NextAt) })
	return all
}

// testOutboxLanes checks that each lane is read by itself, however many items wait in another, and that a Session's open items
// are listed.
func testOutboxLanes(env *storeEnv) {
	session := env.session(alice())
	item := func(kind, target, sessionID string, next int64) string {
		i := store.OutboxItem{ID: env.id(), SessionID: sessionID, Kind: kind, Target: target, CreatedAt: at(1), NextAt: at(next)}
		env.tx(func(tx store.Tx) error { return tx.InsertOutbox(env.ctx, i) })
		return i.ID
	}
	for range 300 {
		item("a", "hangs", "", 1)
	}
	first, second := item("a", "well", session.ID, 2), item("b", "well", session.ID, 3)
	done := item("c", "none", session.ID, 1)
	env.tx(func(tx store.Tx) error { return tx.OutboxDone(env.ctx, done, at(2)) })
	lanes := func(kind string) []store.OutboxLane {
		return got[[]store.OutboxLane](env)(env.s.OutboxLanes(env.ctx, store.System(), kind))
	}
	same(env, lanes(""), []store.OutboxLane{{Kind: "a", Target: "hangs"}, {Kind: "a", Target: "well"}, {Kind: "b", Target: "well"}})
	same(env, lanes("b"), []store.OutboxLane{{Kind: "b", Target: "well"}})
	id := func(i store.OutboxItem) string { return i.ID }
	same(env, idsOf(got[[]store.OutboxItem](env)(env.s.OutboxDue(env.ctx, store.System(), store.OutboxLane{Kind: "a", Target: "well"}, at(5), 3)), id), []string{first})
	same(env, idsOf(got[[]store.OutboxItem](env)(env.s.OutboxOf(env.ctx, store.System(), session.ID)), id), []string{first, second})
}
