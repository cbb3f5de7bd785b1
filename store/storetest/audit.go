package storetest

import (
	"errors"
	"fmt"
	"time"

	"aqueduct/store"
)

func (w *world) audit(e store.AuditEntry) store.AuditEntry {
	w.Helper()
	w.tx(func(tx store.Tx) (err error) { e, err = tx.AppendAudit(w.ctx, e); return err })
	return e
}

func testAudit(w *world) {
	first := w.audit(store.AuditEntry{Tenant: "acme", TS: at(1), Actor: "alice", Action: "decide", SubjectType: "approval",
		SubjectID: "a1", Payload: []byte(`{"b":1,"a":2}`)})
	same(w, []any{first.Seq, first.PrevHash, first.Hash}, []any{int64(1), "", first.Sum()})
	err := w.s.InTx(w.ctx, func(tx store.Tx) error {
		_, err := tx.AppendAudit(w.ctx, store.AuditEntry{Action: "undone", TS: at(2)})
		return errors.Join(err, errNo)
	})
	w.is(err, errNo) // and leaves no hole
	var two []store.AuditEntry
	w.tx(func(tx store.Tx) error { // one transaction may append several
		two = nil
		for _, actor := range []string{"bob", "system"} {
			e, err := tx.AppendAudit(w.ctx, store.AuditEntry{Tenant: "acme", TS: at(3), Actor: actor, Action: "x"})
			if err != nil {
				return err
			}
			two = append(two, e)
		}
		return nil
	})
	other := w.audit(store.AuditEntry{Tenant: "other", TS: at(4), Actor: "alice", Action: "x"})
	all := []store.AuditEntry{first, two[0], two[1], other}
	read := func(in store.Scope, after int64, limit int) []store.AuditEntry {
		w.Helper()
		return got[[]store.AuditEntry](w)(w.s.Audit(w.ctx, in, after, limit))
	}
	same(w, read(store.System(), 0, 0), all)
	same(w, read(store.System(), 1, 2), all[1:3])
	same(w, read(store.Within("acme"), 0, 0), all[:3])
	same(w, read(store.As(alice()), 0, 0), all[:1])
	same(w, read(store.As(bob()), 0, 0), all[1:2])
	same(w, len(read(store.Within(""), 0, 0)), 0)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error {
		_, err := tx.AppendAudit(w.ctx, store.AuditEntry{Action: "x", TS: at(1), Payload: []byte("{")})
		return err
	}), store.ErrData)
}

// testAuditAsKept: what is read back has the hash it was given, whatever the texts are.
func testAuditAsKept(w *world) {
	odd := "a\x00b\xffc"
	given := []store.AuditEntry{
		{Action: odd, Tenant: odd, Actor: odd, SubjectType: odd, SubjectID: odd, TS: time.Now(), Payload: []byte(`{ "t":"\u0000é" }`)},
		{Action: "no time"}, {Action: "1970", TS: time.Unix(0, 0)}, {Action: "elsewhere", TS: time.Now().In(time.FixedZone("x", 3600)), Payload: []byte{}},
	}
	var kept []store.AuditEntry
	for _, e := range given {
		kept = append(kept, w.audit(e))
	}
	back := got[[]store.AuditEntry](w)(w.s.Audit(w.ctx, store.System(), 0, 0))
	same(w, back, kept)
	for _, e := range back {
		same(w, e.Sum(), e.Hash)
	}
}

// testAuditAtOnce: many append, and the chain has no hole and no fork.
func testAuditAtOnce(w *world) {
	const n = 40
	w.ok(atOnce(n, func(i int) error {
		return w.s.InTx(w.ctx, func(tx store.Tx) error {
			_, err := tx.AppendAudit(w.ctx, store.AuditEntry{Tenant: "acme", Actor: fmt.Sprint(i), Action: "x", TS: at(int64(i))})
			return err
		})
	}))
	last := store.AuditEntry{}
	for _, e := range got[[]store.AuditEntry](w)(w.s.Audit(w.ctx, store.System(), 0, n+1)) {
		same(w, []any{e.Seq, e.PrevHash, e.Sum()}, []any{last.Seq + 1, last.Hash, e.Hash})
		last = e
	}
	same(w, last.Seq, n)
}
