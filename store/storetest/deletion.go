package storetest

import (
	"errors"
	"fmt"

	"aqueduct/store"
)

// purgeSession deletes all rows of a hidden Session and returns in how many transactions.
func purgeSession(env *storeEnv, id string) (parts int) {
	env.Helper()
	for done := false; !done; parts++ {
		env.tx(func(tx store.Tx) (err error) { done, err = tx.PurgeSession(env.ctx, id); return err })
	}
	return parts
}

func testPurge(env *storeEnv) {
	f, kept := insertFull(env, alice()), insertFull(env, bob())
	for _, id := range []string{f.session.ID, "none"} {
		env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { _, err := tx.PurgeSession(env.ctx, id); return err }), store.ErrNotFound)
	}
	env.tx(func(tx store.Tx) error {
		return errors.Join(tx.InsertOutbox(env.ctx, store.OutboxItem{ID: env.id(), SessionID: f.session.ID, Kind: "of it", CreatedAt: at(1)}),
			tx.InsertGrant(env.ctx, store.Grant{ID: env.id(), Tenant: "acme", User: "alice", SessionID: f.session.ID, CreatedAt: at(1)}),
			tx.DeleteSession(env.ctx, f.session.ID, at(50)))
	})
	purgeSession(env, f.session.ID)
	// Its owner cannot continue the log that is gone; other rows that are written to the Session are purged the next time.
	env.refuse(store.ErrConflict, store.Batch{Events: []store.EventRow{row(f.session.ID, 3, 1)}})
	env.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 1, 1)}})
	purgeSession(env, f.session.ID)
	same(env, purgeSession(env, f.session.ID), 1)
	for _, i := range outboxDue(env, at(9), 100) {
		if i.SessionID == f.session.ID {
			env.Errorf("left: %+v", i)
		}
	}
	for _, g := range got[[]store.Grant](env)(env.s.Grants(env.ctx, store.Within("acme"), store.Page{})) {
		if g.SessionID != "" {
			env.Errorf("left: %+v", g)
		}
	}
	if n := len(got[[]store.AuditEntry](env)(env.s.Audit(env.ctx, store.System(), 0, 10))); n != 6 { // three of each full Session
		env.Errorf("the audit has %d entries of 6", n)
	}
	// The name is free, and others' rows are as they were.
	again := f.session
	again.ID = env.id()
	env.tx(func(tx store.Tx) error { return tx.InsertSession(env.ctx, again) })
	for name, read := range readsOfSession(env, kept) {
		if seen, err := read(env.s, store.As(bob())); err != nil || !seen {
			env.Errorf("%s of another Session: %t %v", name, seen, err)
		}
	}
	listed := func() bool {
		for _, d := range got[[]store.Deleted](env)(env.s.DeletedSessions(env.ctx, store.System(), 100)) {
			if d == (store.Deleted{ID: f.session.ID, Tenant: "acme", At: at(50)}) {
				return true
			}
		}
		return false
	}
	if !listed() {
		env.Error("a hidden Session is not listed")
	}
	env.tx(func(tx store.Tx) error {
		return errors.Join(tx.RemoveSession(env.ctx, f.session.ID), tx.RemoveSession(env.ctx, kept.session.ID))
	})
	if listed() {
		env.Error("it is listed after it was removed")
	}
	got[store.Session](env)(env.s.Session(env.ctx, store.As(bob()), kept.session.ID)) // it is not hidden: nothing happened
	env.ok(env.s.Scrub(env.ctx))
}

// testPurgeInParts: one transaction deletes a bounded part of a large Session.
func testPurgeInParts(env *storeEnv) {
	s := env.session(alice())
	big := row(s.ID, 1, 1)
	big.Data = make([]byte, 1<<20)
	for seq := range int64(7) {
		big.LastSeq = seq + 1
		env.commit(store.Batch{Events: []store.EventRow{big}})
	}
	env.tx(func(tx store.Tx) error {
		for i := range 500 {
			if err := tx.InsertMessage(env.ctx, newMessage(env, s.ID, fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return tx.DeleteSession(env.ctx, s.ID, at(50))
	})
	if parts := purgeSession(env, s.ID); parts < 4+3 {
		env.Errorf("7 MiB of events and 500 messages were deleted in %d parts", parts)
	}
	last := int64(-1)
	env.tx(func(tx store.Tx) (err error) {
		rows, err := tx.Events(env.ctx, store.System(), s.ID, 0, 1)
		last = int64(len(rows))
		return err
	})
	same(env, last, 0)
}
