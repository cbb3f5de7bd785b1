package storetest

import (
	"errors"
	"fmt"

	"aqueduct/store"
)

// purge deletes all rows of a hidden Session and tells in how many transactions.
func (w *world) purge(id string) (parts int) {
	w.Helper()
	for done := false; !done; parts++ {
		w.tx(func(tx store.Tx) (err error) { done, err = tx.PurgeSession(w.ctx, id); return err })
	}
	return parts
}

func testPurge(w *world) {
	f, kept := w.full(alice()), w.full(bob())
	for _, id := range []string{f.session.ID, "none"} {
		w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { _, err := tx.PurgeSession(w.ctx, id); return err }), store.ErrNotFound)
	}
	w.tx(func(tx store.Tx) error {
		return errors.Join(tx.InsertOutbox(w.ctx, store.OutboxItem{ID: w.id(), SessionID: f.session.ID, Kind: "of it", CreatedAt: at(1)}),
			tx.InsertGrant(w.ctx, store.Grant{ID: w.id(), Tenant: "acme", User: "alice", SessionID: f.session.ID, CreatedAt: at(1)}),
			tx.DeleteSession(w.ctx, f.session.ID, at(50)))
	})
	w.purge(f.session.ID)
	// What its owner still writes is purged the next time.
	w.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 3, 1)}})
	w.purge(f.session.ID)
	same(w, w.purge(f.session.ID), 1)
	for _, i := range got[[]store.OutboxItem](w)(w.s.OutboxDue(w.ctx, store.System(), at(9), 100)) {
		if i.SessionID != "" {
			w.Errorf("left: %+v", i)
		}
	}
	for _, g := range got[[]store.Grant](w)(w.s.Grants(w.ctx, store.Within("acme"), store.Page{})) {
		if g.SessionID != "" {
			w.Errorf("left: %+v", g)
		}
	}
	if n := len(got[[]store.AuditEntry](w)(w.s.Audit(w.ctx, store.System(), 0, 10))); n != 4 { // two of each full Session
		w.Errorf("the audit has %d entries of 4", n)
	}
	// The name is free, and others' rows are as they were.
	again := f.session
	again.ID = w.id()
	w.tx(func(tx store.Tx) error { return tx.InsertSession(w.ctx, again) })
	for name, read := range w.reads(kept) {
		if seen, err := read(w.s, store.As(bob())); err != nil || !seen {
			w.Errorf("%s of another Session: %t %v", name, seen, err)
		}
	}
	listed := func() bool {
		for _, d := range got[[]store.Deleted](w)(w.s.DeletedSessions(w.ctx, store.System(), 100)) {
			if d == (store.Deleted{ID: f.session.ID, Tenant: "acme", At: at(50)}) {
				return true
			}
		}
		return false
	}
	if !listed() {
		w.Error("a hidden Session is not listed")
	}
	w.tx(func(tx store.Tx) error {
		return errors.Join(tx.RemoveSession(w.ctx, f.session.ID), tx.RemoveSession(w.ctx, kept.session.ID))
	})
	if listed() {
		w.Error("it is listed after it was removed")
	}
	got[store.Session](w)(w.s.Session(w.ctx, store.As(bob()), kept.session.ID)) // it is not hidden: nothing happened
	w.ok(w.s.Scrub(w.ctx))
}

// testPurgeInParts: one transaction deletes a bounded part of a large Session.
func testPurgeInParts(w *world) {
	s := w.session(alice())
	big := row(s.ID, 1, 1)
	big.Data = make([]byte, 1<<20)
	for seq := range int64(7) {
		big.LastSeq = seq + 1
		w.commit(store.Batch{Events: []store.EventRow{big}})
	}
	w.tx(func(tx store.Tx) error {
		for i := range 500 {
			if err := tx.InsertMessage(w.ctx, w.message(s.ID, fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return tx.DeleteSession(w.ctx, s.ID, at(50))
	})
	if parts := w.purge(s.ID); parts < 4+3 {
		w.Errorf("7 MiB of events and 500 messages were deleted in %d parts", parts)
	}
	last := int64(-1)
	w.tx(func(tx store.Tx) (err error) {
		rows, err := tx.Events(w.ctx, store.System(), s.ID, 0, 1)
		last = int64(len(rows))
		return err
	})
	same(w, last, 0)
}
