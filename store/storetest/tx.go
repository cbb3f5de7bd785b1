package storetest

import (
	"context"
	"errors"

	"aqueduct/store"
)

func testTx(env *storeEnv) {
	s := env.session(alice())
	// It reads its own writes; an error undoes them and is returned as it is.
	err := env.s.InTx(env.ctx, func(tx store.Tx) error {
		if err := tx.SetSessionTitle(env.ctx, s.ID, "inside"); err != nil {
			return err
		}
		same(env, got[store.Session](env)(tx.Session(env.ctx, store.System(), s.ID)).Title, "inside")
		return errNo
	})
	if err != errNo {
		env.Fatalf("error %v", err)
	}
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, "")

	func() { // a panic undoes as well, and leaves the store usable
		defer func() { _ = recover() }()
		_ = env.s.InTx(env.ctx, func(tx store.Tx) error {
			env.ok(tx.SetSessionTitle(env.ctx, s.ID, "inside"))
			panic("no")
		})
	}()
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, "")

	ended, end := context.WithCancel(env.ctx)
	end()
	ran := false
	if err := env.s.InTx(ended, func(store.Tx) error { ran = true; return nil }); err == nil || ran {
		env.Errorf("a transaction began although its caller had left: %v", err)
	}
	if _, err := env.s.Commit(ended, &store.Batch{Replica: env.replica}); !errors.Is(err, store.ErrUnavailable) &&
		!errors.Is(err, store.ErrUnknownOutcome) {
		env.Errorf("a Commit whose caller had left: %v", err)
	}
	env.tx(func(tx store.Tx) error { return tx.SetSessionTitle(env.ctx, s.ID, "after") })
}

// testTxBroken: after a statement failed, a transaction writes nothing any more, even
// when fn takes the error for good.
func testTxBroken(env *storeEnv) {
	s := env.session(alice())
	err := env.s.InTx(env.ctx, func(tx store.Tx) error {
		_ = tx.InsertSession(env.ctx, s) // its error comes now or with the next statement
		env.is(tx.SetSessionTitle(env.ctx, s.ID, "x"), store.ErrConflict)
		_, err := tx.Session(env.ctx, store.System(), s.ID)
		env.is(err, store.ErrConflict)
		return nil
	})
	env.is(err, store.ErrConflict)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, "")
}

func testPing(env *storeEnv) { env.ok(env.s.Ping(env.ctx)) }
