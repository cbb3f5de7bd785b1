package storetest

import (
	"context"
	"errors"

	"aqueduct/store"
)

func testTx(w *world) {
	s := w.session(alice())
	// It reads its own writes; an error undoes them and is returned as it is.
	err := w.s.InTx(w.ctx, func(tx store.Tx) error {
		if err := tx.SetSessionTitle(w.ctx, s.ID, "inside"); err != nil {
			return err
		}
		same(w, got[store.Session](w)(tx.Session(w.ctx, store.System(), s.ID)).Title, "inside")
		return errNo
	})
	if err != errNo {
		w.Fatalf("error %v", err)
	}
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Title, "")

	func() { // a panic undoes as well, and leaves the store usable
		defer func() { _ = recover() }()
		_ = w.s.InTx(w.ctx, func(tx store.Tx) error {
			w.ok(tx.SetSessionTitle(w.ctx, s.ID, "inside"))
			panic("no")
		})
	}()
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Title, "")

	ended, end := context.WithCancel(w.ctx)
	end()
	ran := false
	if err := w.s.InTx(ended, func(store.Tx) error { ran = true; return nil }); err == nil || ran {
		w.Errorf("a transaction began although its caller had left: %v", err)
	}
	if _, err := w.s.Commit(ended, &store.Batch{Replica: w.replica}); !errors.Is(err, store.ErrUnavailable) &&
		!errors.Is(err, store.ErrUnknownOutcome) {
		w.Errorf("a Commit whose caller had left: %v", err)
	}
	w.tx(func(tx store.Tx) error { return tx.SetSessionTitle(w.ctx, s.ID, "after") })
}

// testTxBroken: after a statement failed, a transaction writes nothing any more, even
// when fn takes the error for good.
func testTxBroken(w *world) {
	s := w.session(alice())
	err := w.s.InTx(w.ctx, func(tx store.Tx) error {
		_ = tx.InsertSession(w.ctx, s) // told now or with what comes next
		w.is(tx.SetSessionTitle(w.ctx, s.ID, "x"), store.ErrConflict)
		_, err := tx.Session(w.ctx, store.System(), s.ID)
		w.is(err, store.ErrConflict)
		return nil
	})
	w.is(err, store.ErrConflict)
	same(w, got[store.Session](w)(w.s.Session(w.ctx, store.System(), s.ID)).Title, "")
}

func testPing(w *world) { w.ok(w.s.Ping(w.ctx)) }
