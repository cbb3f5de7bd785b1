package storetest

import (
	"errors"

	"aqueduct/store"
)

func testSessions(env *storeEnv) {
	s := store.Session{ID: env.id(), Tenant: "acme", User: "alice", ExternalID: "thread", AgentID: "demo", Title: "T",
		State: []byte(`{"b":1,"a":12345678901234567890}`), Owner: "somebody", CreatedAt: at(1), UpdatedAt: at(2)}
	env.tx(func(tx store.Tx) error {
		if err := tx.InsertSession(env.ctx, s); err != nil {
			return err
		}
		same(env, got[store.Session](env)(tx.LockSession(env.ctx, store.System(), s.ID)), s)
		return nil
	})
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.As(alice()), s.ID)), s)
	same(env, got[store.Session](env)(env.s.SessionByExternalID(env.ctx, store.As(alice()), "thread")), s)

	env.tx(func(tx store.Tx) error { return tx.SetSessionTitle(env.ctx, s.ID, "U") })
	s.Title = "U"
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)), s)

	env.move(store.SessionMove{ID: s.ID, UpdatedAt: at(9)})
	s.UpdatedAt = at(9)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)), s)
	env.move(store.SessionMove{ID: s.ID, State: []byte(`{}`), Title: "V", UpdatedAt: at(10)})
	s.State, s.Title, s.UpdatedAt = []byte(`{}`), "V", at(10)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)), s)

	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { return tx.SetSessionTitle(env.ctx, "none", "x") }), store.ErrNotFound)
}

// testSessionBytes: what the Runs of a tenant's threads added is summed up, without those that were deleted.
func testSessionBytes(env *storeEnv) {
	a, b, other := env.session(alice()), env.session(bob()), env.session(carol())
	have := func() int64 { return got[int64](env)(env.s.TenantBytes(env.ctx, store.System(), a.Tenant)) }
	before := have()
	env.move(store.SessionMove{ID: a.ID, Bytes: 100, UpdatedAt: at(1)})
	env.move(store.SessionMove{ID: a.ID, Bytes: 20, UpdatedAt: at(2)})
	env.move(store.SessionMove{ID: b.ID, Bytes: 3, UpdatedAt: at(2)})
	env.move(store.SessionMove{ID: other.ID, Bytes: 1 << 40, UpdatedAt: at(2)})
	same(env, have()-before, int64(123))
	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, a.ID, at(3)) })
	same(env, have()-before, int64(3))
}

func testSessionListing(env *storeEnv) {
	var want []string // newest first
	for i := range 7 {
		s := env.session(alice())
		env.move(store.SessionMove{ID: s.ID, UpdatedAt: at(int64(100 + i/2))}) // pairs share a time
		want = append([]string{s.ID}, want...)
	}
	env.session(bob())
	page := func(p store.Page) []string {
		env.Helper()
		all, err := env.s.Sessions(env.ctx, store.As(alice()), p)
		env.ok(err)
		return idsOf(all, func(s store.Session) string { return s.ID })
	}
	same(env, page(store.Page{}), want)
	same(env, page(store.Page{Limit: 3}), want[:3])
	same(env, page(store.Page{Limit: 3, After: want[2]}), want[3:6])
	same(env, page(store.Page{Limit: 3, After: want[5]}), want[6:])
	same(env, page(store.Page{Limit: 2, Before: want[5]}), want[3:5])
	same(env, page(store.Page{After: want[1], Before: want[4]}), want[2:4])

	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, want[2], at(500)) })
	same(env, page(store.Page{Limit: 3, After: want[2]}), want[3:6])
	foreign := env.session(carol())
	if shown := page(store.Page{After: foreign.ID}); len(shown) > 0 {
		env.Errorf("a foreign cursor gives a place in the listing: %v", shown)
	}
}

func testSessionNames(env *storeEnv) {
	s := env.session(alice())
	again := func(p store.Principal, id string) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			return tx.InsertSession(env.ctx, store.Session{ID: id, Tenant: p.Tenant, User: p.User,
				ExternalID: s.ExternalID, AgentID: "demo", CreatedAt: at(1), UpdatedAt: at(1)})
		})
	}
	env.is(again(alice(), env.id()), store.ErrConflict)
	env.is(again(bob(), s.ID), store.ErrConflict)
	env.ok(again(bob(), env.id()))
	env.ok(again(carol(), env.id()))

	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, s.ID, at(2)) })
	_, err := env.s.SessionByExternalID(env.ctx, store.As(alice()), s.ExternalID)
	env.is(err, store.ErrNotFound)
	env.ok(again(alice(), env.id()))
}

func testSessionDeletion(env *storeEnv) {
	f := insertFull(env, alice())
	reads := readsOfSession(env, f)
	env.tx(func(tx store.Tx) error {
		if err := errors.Join(tx.DeleteSession(env.ctx, f.session.ID, at(50)), tx.DeleteSession(env.ctx, f.stranded.SessionID, at(50)),
			tx.DeleteSession(env.ctx, f.unsearched.ID, at(50))); err != nil {
			return err
		}
		checkEveryScope(env, tx, reads, false)
		return nil
	})
	checkEveryScope(env, env.s, reads, false)
	for name, change := range map[string]func(store.Tx) error{
		"DeleteSession":   func(tx store.Tx) error { return tx.DeleteSession(env.ctx, f.session.ID, at(51)) },
		"SetSessionTitle": func(tx store.Tx) error { return tx.SetSessionTitle(env.ctx, f.session.ID, "x") },
		"LockSession": func(tx store.Tx) error {
			_, err := tx.LockSession(env.ctx, store.System(), f.session.ID)
			return err
		},
	} {
		env.Log(name)
		env.is(env.s.InTx(env.ctx, change), store.ErrNotFound)
	}
	// Its owner may be in the middle of a Run; what it still writes is no error.
	env.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 3, 1)},
		Moves: []store.Move{store.RunMove{ID: f.run.ID, From: store.RunRunning, To: store.RunFailed}}})
}

func testSessionClaim(env *storeEnv) {
	s := env.session(alice())
	claim := func(replica string) (ok bool, err error) {
		err = env.s.InTx(env.ctx, func(tx store.Tx) (err error) { ok, err = tx.ClaimSession(env.ctx, s.ID, replica); return err })
		return ok, err
	}
	wins := func(replica string, want bool) {
		env.Helper()
		ok, err := claim(replica)
		env.ok(err)
		if ok != want {
			env.Fatalf("claim is %t, want %t", ok, want)
		}
	}
	other := env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: other, Name: "two"}))
	wins(env.replica, true)
	wins(env.replica, true)
	wins(other, false)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Owner, env.replica)
	release := func(of string) {
		env.Helper()
		env.ok(env.s.InTx(env.ctx, func(tx store.Tx) error { return tx.ReleaseSession(env.ctx, s.ID, of) }))
	}
	release(other)
	wins(other, false)
	release(env.replica)
	wins(other, true)
	release(other)
	wins(env.replica, true)
	hand := func(from, to string, want bool) {
		env.Helper()
		var ok bool
		env.ok(env.s.InTx(env.ctx, func(tx store.Tx) (err error) { ok, err = tx.HandSession(env.ctx, s.ID, from, to); return err }))
		if ok != want {
			env.Fatalf("handed is %t, want %t", ok, want)
		}
	}
	hand(other, other, false)
	hand(env.replica, "unknown", false)
	hand(env.replica, other, true)
	wins(env.replica, false)
	hand(other, env.replica, true)

	env.ok(env.s.Fence(env.ctx, env.replica))
	_, err := claim(env.replica)
	env.is(err, store.ErrFenced)
	wins(other, true)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Owner, other)
}

func testSessionsWithWork(env *storeEnv) {
	other, gone := env.id(), env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: other, Name: "two"}))
	env.ok(env.s.Register(env.ctx, store.Replica{ID: gone, Name: "three"}))
	owned := func(owner string) store.Session {
		s := env.session(alice())
		if owner != "" {
			env.tx(func(tx store.Tx) error { _, err := tx.ClaimSession(env.ctx, s.ID, owner); return err })
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
	reserved := func(s store.Session) { env.run(s.ID, "t", store.RunReserved) }
	running := func(s store.Session) { env.run(s.ID, "t", store.RunRunning) }
	command := func(s store.Session) {
		env.tx(func(tx store.Tx) error {
			return tx.InsertCommand(env.ctx, store.Command{ID: env.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)})
		})
	}
	for _, give := range []func(store.Session){reserved, running, command} {
		work("", true, give)
		work(env.replica, true, give)
		work(gone, true, give)
		work(other, false, give)
	}
	work(env.replica, false, func(s store.Session) { env.run(s.ID, "t", store.RunFinished) })
	work(env.replica, false, func(store.Session) {})
	work(env.replica, false, func(s store.Session) {
		c := store.Command{ID: env.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)}
		env.tx(func(tx store.Tx) error { return tx.InsertCommand(env.ctx, c) })
		env.move(store.CommandDone{ID: c.ID, At: at(2)})
	})
	work("", false, func(s store.Session) {
		reserved(s)
		env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, s.ID, at(3)) })
	})
	env.ok(env.s.Fence(env.ctx, gone))
	same(env, got[[]string](env)(env.s.SessionsWithWork(env.ctx, store.System(), env.replica)), want)
}

func testSessionsWithCommands(env *storeEnv) {
	other := env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: other, Name: "two"}))
	var want []string
	for _, has := range []struct {
		owner string
		kind  store.CommandKind
		done  bool
		found bool
	}{
		{env.replica, store.CommandCancel, false, true},
		{env.replica, store.CommandLook, false, true},
		{env.replica, store.CommandAppend, false, false},
		{env.replica, store.CommandCancel, true, false},
		{other, store.CommandCancel, false, false},
		{"", store.CommandCancel, false, true},
	} {
		s := env.session(alice())
		c := store.Command{ID: env.id(), SessionID: s.ID, Kind: has.kind, CreatedAt: at(1)}
		env.tx(func(tx store.Tx) error {
			if has.owner != "" {
				if _, err := tx.ClaimSession(env.ctx, s.ID, has.owner); err != nil {
					return err
				}
			}
			return tx.InsertCommand(env.ctx, c)
		})
		if has.done {
			env.move(store.CommandDone{ID: c.ID, At: at(2)})
		}
		if has.found {
			want = append(want, s.ID)
		}
	}
	same(env, got[[]string](env)(env.s.SessionsWithCommands(env.ctx, store.System(), env.replica)), want)
}

func testAbandonedSessions(env *storeEnv) {
	living, gone := env.id(), env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: living, Name: "two"}))
	env.ok(env.s.Register(env.ctx, store.Replica{ID: gone, Name: "three"}))
	var want []string
	under := func(owner string, abandoned bool, give func(store.Session)) {
		s := env.session(alice())
		if owner != "" {
			env.tx(func(tx store.Tx) error { _, err := tx.ClaimSession(env.ctx, s.ID, owner); return err })
		}
		give(s)
		if abandoned {
			want = append(want, s.ID)
		}
	}
	gives := []func(store.Session){
		func(s store.Session) { env.run(s.ID, "t", store.RunReserved) },
		func(s store.Session) { env.run(s.ID, "t", store.RunRunning) },
		func(s store.Session) {
			env.tx(func(tx store.Tx) error {
				return tx.InsertCommand(env.ctx, store.Command{ID: env.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)})
			})
		},
	}
	for _, status := range []store.TurnStatus{store.TurnQueued, store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool} {
		gives = append(gives, func(s store.Session) { env.turn(s.ID, status) })
	}
	for _, give := range gives {
		under("", true, give)
		under(gone, true, give)
		under(env.replica, false, give)
		under(living, false, give)
	}
	under(gone, false, func(s store.Session) { env.run(s.ID, env.turn(s.ID, store.TurnDone).ID, store.RunFinished) })
	under(gone, false, func(store.Session) {})
	under(gone, false, func(s store.Session) {
		env.turn(s.ID, store.TurnPausedTool)
		env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, s.ID, at(3)) })
	})
	env.ok(env.s.Fence(env.ctx, gone))
	same(env, got[[]string](env)(env.s.AbandonedSessions(env.ctx, store.System())), want)
}
