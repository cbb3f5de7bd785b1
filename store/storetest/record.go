package storetest

import (
	"aqueduct/store"
)

func testRecords(env *storeEnv) {
	s := env.session(alice())
	var want []store.Record
	for i := range 5 {
		e := store.Record{ID: env.id(), SessionID: s.ID, TurnID: "t1", Source: store.SourceACP, Type: "update",
			AtSeq: int64(i), TS: at(int64(i)), Payload: []byte(`{"z":1,"a":"\u0000","n":1.0}`)}
		want = append(want, e)
	}
	want[1].Payload = nil
	none := store.Record{ID: env.id(), SessionID: s.ID, Source: store.SourcePlatform, Type: "llm", TS: at(1)}
	env.commit(store.Batch{Records: append([]store.Record{none}, want[:3]...)})
	env.tx(func(tx store.Tx) error {
		for _, e := range want[3:] {
			if err := tx.InsertRecord(env.ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	page := func(turn string, p store.Page) []store.Record {
		env.Helper()
		return got[[]store.Record](env)(env.s.RecordsOfTurn(env.ctx, store.System(), turn, p))
	}
	same(env, page("t1", store.Page{}), want)
	same(env, page("t1", store.Page{Limit: 2}), want[:2])
	same(env, page("t1", store.Page{Limit: 2, After: want[1].ID}), want[2:4])
	same(env, page("t1", store.Page{Before: want[2].ID}), want[:2])
	same(env, len(page("t2", store.Page{})), 0)
	same(env, len(page("", store.Page{})), 0)
	env.refuse(store.ErrConflict, store.Batch{Records: want[:1]})
	typed := func(kind string, p store.Page) []store.Record {
		env.Helper()
		return got[[]store.Record](env)(env.s.RecordsOfType(env.ctx, store.System(), kind, p))
	}
	same(env, typed("update", store.Page{}), want)
	same(env, typed("update", store.Page{Limit: 2, After: want[0].ID}), want[1:3])
	same(env, typed("llm", store.Page{}), []store.Record{none})
	same(env, len(typed("none", store.Page{})), 0)
}

func testCommands(env *storeEnv) {
	s := env.session(alice())
	first := store.Command{ID: env.id(), SessionID: s.ID, TurnID: "t1", Kind: store.CommandCancel,
		Payload: []byte(`{"why":"x"}`), CreatedAt: at(1)}
	second := store.Command{ID: env.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)}
	env.tx(func(tx store.Tx) error {
		if err := tx.InsertCommand(env.ctx, second); err != nil {
			return err
		}
		return tx.InsertCommand(env.ctx, first)
	})
	pending := func() []store.Command {
		env.Helper()
		return got[[]store.Command](env)(env.s.PendingCommands(env.ctx, store.System(), s.ID))
	}
	same(env, pending(), []store.Command{first, second})
	same(env, len(env.move(store.CommandDone{ID: first.ID, At: at(2)})), 0)
	same(env, pending(), []store.Command{second})
	same(env, env.move(store.CommandDone{ID: first.ID, At: at(3)}), []int{0})
}
