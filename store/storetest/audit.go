package storetest

import (
	"errors"
	"fmt"
	"time"

	"aqueduct/store"
)

func appendAudit(env *storeEnv, e store.AuditEntry) store.AuditEntry {
	env.Helper()
	env.tx(func(tx store.Tx) (err error) { e, err = tx.AppendAudit(env.ctx, e); return err })
	return e
}

func testAudit(env *storeEnv) {
	first := appendAudit(env, store.AuditEntry{Tenant: "acme", TS: at(1), Actor: "alice", Action: "decide", SubjectType: "approval",
		SubjectID: "a1", Payload: []byte(`{"b":1,"a":2}`)})
	same(env, []any{first.Seq, first.PrevHash, first.Hash}, []any{int64(1), "", first.Sum()})
	err := env.s.InTx(env.ctx, func(tx store.Tx) error {
		_, err := tx.AppendAudit(env.ctx, store.AuditEntry{Action: "undone", TS: at(2)})
		return errors.Join(err, errNo)
	})
	env.is(err, errNo) // and leaves no hole
	var two []store.AuditEntry
	env.tx(func(tx store.Tx) error { // one transaction may append several
		two = nil
		for _, actor := range []string{"bob", "system"} {
			e, err := tx.AppendAudit(env.ctx, store.AuditEntry{Tenant: "acme", TS: at(3), Actor: actor, Action: "x"})
			if err != nil {
				return err
			}
			two = append(two, e)
		}
		return nil
	})
	other := appendAudit(env, store.AuditEntry{Tenant: "other", TS: at(4), Actor: "alice", Action: "x"})
	all := []store.AuditEntry{first, two[0], two[1], other}
	read := func(in store.Scope, after int64, limit int) []store.AuditEntry {
		env.Helper()
		return got[[]store.AuditEntry](env)(env.s.Audit(env.ctx, in, after, limit))
	}
	same(env, read(store.System(), 0, 0), all)
	same(env, read(store.System(), 1, 2), all[1:3])
	same(env, read(store.Within("acme"), 0, 0), all[:3])
	same(env, read(store.As(alice()), 0, 0), all[:1])
	same(env, read(store.As(bob()), 0, 0), all[1:2])
	same(env, len(read(store.Within(""), 0, 0)), 0)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error {
		_, err := tx.AppendAudit(env.ctx, store.AuditEntry{Action: "x", TS: at(1), Payload: []byte("{")})
		return err
	}), store.ErrData)
}

// testAuditAsKept: what is read back has the hash it was given, whatever the texts are.
func testAuditAsKept(env *storeEnv) {
	odd := "a\x00b\xffc"
	given := []store.AuditEntry{
		{Action: odd, Tenant: odd, Actor: odd, SubjectType: odd, SubjectID: odd, TS: time.Now(), Payload: []byte(`{ "t":"\u0000é" }`)},
		{Action: "no time"}, {Action: "1970", TS: time.Unix(0, 0)}, {Action: "elsewhere", TS: time.Now().In(time.FixedZone("x", 3600)), Payload: []byte{}},
	}
	var kept []store.AuditEntry
	for _, e := range given {
		kept = append(kept, appendAudit(env, e))
	}
	back := got[[]store.AuditEntry](env)(env.s.Audit(env.ctx, store.System(), 0, 0))
	same(env, back, kept)
	for _, e := range back {
		same(env, e.Sum(), e.Hash)
	}
}

// testAuditAtOnce: many append, and the chain has no hole and no fork.
func testAuditAtOnce(env *storeEnv) {
	const n = 40
	env.ok(atOnce(n, func(i int) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			_, err := tx.AppendAudit(env.ctx, store.AuditEntry{Tenant: "acme", Actor: fmt.Sprint(i), Action: "x", TS: at(int64(i))})
			return err
		})
	}))
	last := store.AuditEntry{}
	for _, e := range got[[]store.AuditEntry](env)(env.s.Audit(env.ctx, store.System(), 0, n+1)) {
		same(env, []any{e.Seq, e.PrevHash, e.Sum()}, []any{last.Seq + 1, last.Hash, e.Hash})
		last = e
	}
	same(env, last.Seq, n)
}
