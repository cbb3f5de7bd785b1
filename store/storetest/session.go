package storetest

import (
	"errors"

	"aqueduct/store"
)

func testSessions(w *world) {
	s := store.Session{ID: w.id(), Tenant: "acme", User: "alice", ExternalID: "thread", AgentID: "demo", Title: "T",
		State: []byte(`{"b":1,"a":12345678901234567890}`), Owner: "somebody", CreatedAt: at(1), UpdatedAt: at(2)}
	w.tx(func(tx store.Tx) error {
		if err := tx.InsertSession(w.ctx, s); err != nil {
			return err
		}
		same(w, got[store.Session](w)(tx.LockSession(w.ctx, store.System(), s.ID)), s)
		return nil
	})
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.As(alice()), s.ID)), s)
	same(w, got[store.Session](w)(w.s.SessionByExternalID(w.ctx, store.As(alice()), "thread")), s)

	w.tx(func(tx store.Tx) error { return tx.SetSessionTitle(w.ctx, s.ID, "U") })
	s.Title = "U"
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)), s)

	w.move(store.SessionMove{ID: s.ID, UpdatedAt: at(9)})
	s.UpdatedAt = at(9)
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)), s)
	w.move(store.SessionMove{ID: s.ID, State: []byte(`{}`), Title: "V", UpdatedAt: at(10)})
	s.State, s.Title, s.UpdatedAt = []byte(`{}`), "V", at(10)
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)), s)

	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { return tx.SetSessionTitle(w.ctx, "none", "x") }), store.ErrNotFound)
}

// testSessionBytes: what the Runs of a tenant's threads added is summed up, without those that were deleted.
func testSessionBytes(w *world) {
	a, b, other := w.session(alice()), w.session(bob()), w.session(carol())
	have := func(in store.Scope) int64 { return got[int64](w)(w.s.TenantBytes(w.ctx, in)) }
	before := have(store.Within(a.Tenant))
	w.move(store.SessionMove{ID: a.ID, Bytes: 100, UpdatedAt: at(1)})
	w.move(store.SessionMove{ID: a.ID, Bytes: 20, UpdatedAt: at(2)})
	w.move(store.SessionMove{ID: b.ID, Bytes: 3, UpdatedAt: at(2)})
	w.move(store.SessionMove{ID: other.ID, Bytes: 1 << 40, UpdatedAt: at(2)})
	same(w, have(store.Within(a.Tenant))-before, int64(123))
	w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, a.ID, at(3)) })
	same(w, have(store.Within(a.Tenant))-before, int64(3))
}

func testSessionListing(w *world) {
	var want []string // newest first
	for i := range 7 {
		s := w.session(alice())
		w.move(store.SessionMove{ID: s.ID, UpdatedAt: at(int64(100 + i/2))}) // pairs share a time
		want = append([]string{s.ID}, want...)
	}
	w.session(bob())
	page := func(p store.Page) []string {
		w.Helper()
		all, err := w.s.Sessions(w.ctx, store.As(alice()), p)
		w.ok(err)
		return idsOf(all, func(s store.Session) string { return s.ID })
	}
	same(w, page(store.Page{}), want)
	same(w, page(store.Page{Limit: 3}), want[:3])
	same(w, page(store.Page{Limit: 3, After: want[2]}), want[3:6])
	same(w, page(store.Page{Limit: 3, After: want[5]}), want[6:])
	same(w, page(store.Page{Limit: 2, Before: want[5]}), want[3:5])
	same(w, page(store.Page{After: want[1], Before: want[4]}), want[2:4])

	w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, want[2], at(500)) })
	same(w, page(store.Page{Limit: 3, After: want[2]}), want[3:6])
	foreign := w.session(carol())
	if shown := page(store.Page{After: foreign.ID}); len(shown) > 0 {
		w.Errorf("a foreign cursor gives a place in the listing: %v", shown)
	}
}

func testSessionNames(w *world) {
	s := w.session(alice())
	again := func(p store.Principal, id string) error {
		return w.s.InTx(w.ctx, func(tx store.Tx) error {
			return tx.InsertSession(w.ctx, store.Session{ID: id, Tenant: p.Tenant, User: p.User,
				ExternalID: s.ExternalID, AgentID: "demo", CreatedAt: at(1), UpdatedAt: at(1)})
		})
	}
	w.is(again(alice(), w.id()), store.ErrConflict)
	w.is(again(bob(), s.ID), store.ErrConflict)
	w.ok(again(bob(), w.id()))
	w.ok(again(carol(), w.id()))

	w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, s.ID, at(2)) })
	_, err := w.s.SessionByExternalID(w.ctx, store.As(alice()), s.ExternalID)
	w.is(err, store.ErrNotFound)
	w.ok(again(alice(), w.id()))
}

func testSessionDeletion(w *world) {
	f := w.full(alice())
	reads := w.reads(f)
	w.tx(func(tx store.Tx) error {
		if err := errors.Join(tx.DeleteSession(w.ctx, f.session.ID, at(50)), tx.DeleteSession(w.ctx, f.stranded.SessionID, at(50))); err != nil {
			return err
		}
		w.everybody(tx, reads, false)
		return nil
	})
	w.everybody(w.s, reads, false)
	for name, change := range map[string]func(store.Tx) error{
		"DeleteSession":   func(tx store.Tx) error { return tx.DeleteSession(w.ctx, f.session.ID, at(51)) },
		"SetSessionTitle": func(tx store.Tx) error { return tx.SetSessionTitle(w.ctx, f.session.ID, "x") },
		"LockSession": func(tx store.Tx) error {
			_, err := tx.LockSession(w.ctx, store.System(), f.session.ID)
			return err
		},
	} {
		w.Log(name)
		w.is(w.s.InTx(w.ctx, change), store.ErrNotFound)
	}
	// Its owner may be in the middle of a Run; what it still writes is no error.
	w.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 3, 1)},
		Moves: []store.Move{store.RunMove{ID: f.run.ID, From: store.RunRunning, To: store.RunFailed}}})
}

func testSessionClaim(w *world) {
	s := w.session(alice())
	claim := func(replica string) (ok bool, err error) {
		err = w.s.InTx(w.ctx, func(tx store.Tx) (err error) { ok, err = tx.ClaimSession(w.ctx, s.ID, replica); return err })
		return ok, err
	}
	wins := func(replica string, want bool) {
		w.Helper()
		ok, err := claim(replica)
		w.ok(err)
		if ok != want {
			w.Fatalf("claim is %t, want %t", ok, want)
		}
	}
	other := w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: other, Name: "two"}))
	wins(w.replica, true)
	wins(w.replica, true)
	wins(other, false)
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Owner, w.replica)

	w.ok(w.s.Fence(w.ctx, w.replica))
	_, err := claim(w.replica)
	w.is(err, store.ErrFenced)
	wins(other, true)
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Owner, other)
}

func testSessionsWithWork(w *world) {
	other, gone := w.id(), w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: other, Name: "two"}))
	w.ok(w.s.Register(w.ctx, store.Replica{ID: gone, Name: "three"}))
	owned := func(owner string) store.Session {
		s := w.session(alice())
		if owner != "" {
			w.tx(func(tx store.Tx) error { _, err := tx.ClaimSession(w.ctx, s.ID, owner); return err })
		}
		return s
	}
	var want []string
	work := func(owner string, mine bool, give func(store.Session)) {
		s := owned(owner)
		give(s)
		if mine {
			want = append(want, s.ID)
		}
	}
	reserved := func(s store.Session) { w.run(s.ID, "t", store.RunReserved) }
	running := func(s store.Session) { w.run(s.ID, "t", store.RunRunning) }
	command := func(s store.Session) {
		w.tx(func(tx store.Tx) error {
			return tx.InsertCommand(w.ctx, store.Command{ID: w.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)})
		})
	}
	for _, give := range []func(store.Session){reserved, running, command} {
		work("", true, give)
		work(w.replica, true, give)
		work(gone, true, give)
		work(other, false, give)
	}
	work(w.replica, false, func(s store.Session) { w.run(s.ID, "t", store.RunFinished) })
	work(w.replica, false, func(store.Session) {})
	work(w.replica, false, func(s store.Session) {
		c := store.Command{ID: w.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)}
		w.tx(func(tx store.Tx) error { return tx.InsertCommand(w.ctx, c) })
		w.move(store.CommandDone{ID: c.ID, At: at(2)})
	})
	work("", false, func(s store.Session) {
		reserved(s)
		w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, s.ID, at(3)) })
	})
	w.ok(w.s.Fence(w.ctx, gone))
	same(w, got[[]string](w)(w.s.SessionsWithWork(w.ctx, store.System(), w.replica)), want)
}

func testAbandonedSessions(w *world) {
	living, gone := w.id(), w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: living, Name: "two"}))
	w.ok(w.s.Register(w.ctx, store.Replica{ID: gone, Name: "three"}))
	var want []string
	under := func(owner string, abandoned bool, give func(store.Session)) {
		s := w.session(alice())
		if owner != "" {
			w.tx(func(tx store.Tx) error { _, err := tx.ClaimSession(w.ctx, s.ID, owner); return err })
		}
		give(s)
		if abandoned {
			want = append(want, s.ID)
		}
	}
	gives := []func(store.Session){
		func(s store.Session) { w.run(s.ID, "t", store.RunReserved) },
		func(s store.Session) { w.run(s.ID, "t", store.RunRunning) },
		func(s store.Session) {
			w.tx(func(tx store.Tx) error {
				return tx.InsertCommand(w.ctx, store.Command{ID: w.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)})
			})
		},
	}
	for _, status := range []store.TurnStatus{store.TurnQueued, store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool} {
		gives = append(gives, func(s store.Session) { w.turn(s.ID, status) })
	}
	for _, give := range gives {
		under("", true, give)
		under(gone, true, give)
		under(w.replica, false, give)
		under(living, false, give)
	}
	under(gone, false, func(s store.Session) { w.run(s.ID, w.turn(s.ID, store.TurnDone).ID, store.RunFinished) })
	under(gone, false, func(store.Session) {})
	under(gone, false, func(s store.Session) {
		w.turn(s.ID, store.TurnPausedTool)
		w.tx(func(tx store.Tx) error { return tx.DeleteSession(w.ctx, s.ID, at(3)) })
	})
	w.ok(w.s.Fence(w.ctx, gone))
	same(w, got[[]string](w)(w.s.AbandonedSessions(w.ctx, store.System())), want)
}
