package storetest

import (
	"aqueduct/store"
)

func testRecords(w *world) {
	s := w.session(alice())
	var want []store.Record
	for i := range 5 {
		e := store.Record{ID: w.id(), SessionID: s.ID, TurnID: "t1", Source: store.SourceACP, Type: "update",
			AtSeq: int64(i), TS: at(int64(i)), Payload: []byte(`{"z":1,"a":"\u0000","n":1.0}`)}
		want = append(want, e)
	}
	want[1].Payload = nil
	none := store.Record{ID: w.id(), SessionID: s.ID, Source: store.SourcePlatform, Type: "llm", TS: at(1)}
	w.commit(store.Batch{Records: append([]store.Record{none}, want[:3]...)})
	w.tx(func(tx store.Tx) error {
		for _, e := range want[3:] {
			if err := tx.InsertRecord(w.ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	page := func(turn string, p store.Page) []store.Record {
		w.Helper()
		return got[[]store.Record](w)(w.s.RecordsOfTurn(w.ctx, store.System(), turn, p))
	}
	same(w, page("t1", store.Page{}), want)
	same(w, page("t1", store.Page{Limit: 2}), want[:2])
	same(w, page("t1", store.Page{Limit: 2, After: want[1].ID}), want[2:4])
	same(w, page("t1", store.Page{Before: want[2].ID}), want[:2])
	same(w, len(page("t2", store.Page{})), 0)
	same(w, len(page("", store.Page{})), 0)
	w.refuse(store.ErrConflict, store.Batch{Records: want[:1]})
	typed := func(kind string, p store.Page) []store.Record {
		w.Helper()
		return got[[]store.Record](w)(w.s.RecordsOfType(w.ctx, store.System(), kind, p))
	}
	same(w, typed("update", store.Page{}), want)
	same(w, typed("update", store.Page{Limit: 2, After: want[0].ID}), want[1:3])
	same(w, typed("llm", store.Page{}), []store.Record{none})
	same(w, len(typed("none", store.Page{})), 0)
}

func testCommands(w *world) {
	s := w.session(alice())
	first := store.Command{ID: w.id(), SessionID: s.ID, TurnID: "t1", Kind: store.CommandCancel,
		Payload: []byte(`{"why":"x"}`), CreatedAt: at(1)}
	second := store.Command{ID: w.id(), SessionID: s.ID, Kind: store.CommandCancel, CreatedAt: at(1)}
	w.tx(func(tx store.Tx) error {
		if err := tx.InsertCommand(w.ctx, second); err != nil {
			return err
		}
		return tx.InsertCommand(w.ctx, first)
	})
	pending := func() []store.Command {
		w.Helper()
		return got[[]store.Command](w)(w.s.PendingCommands(w.ctx, store.System(), s.ID))
	}
	same(w, pending(), []store.Command{first, second})
	same(w, len(w.move(store.CommandDone{ID: first.ID, At: at(2)})), 0)
	same(w, pending(), []store.Command{second})
	same(w, w.move(store.CommandDone{ID: first.ID, At: at(3)}), []int{0})
}
