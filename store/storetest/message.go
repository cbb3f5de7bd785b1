package storetest

import (
	"aqueduct/store"
)

func (w *world) message(sessionID, name string) store.Message {
	return store.Message{ID: w.id(), SessionID: sessionID, RunID: "r1", ExternalID: name, Role: "user",
		Data: []byte(`{"id":"` + name + `","content":"\u0000 \ud83d\ude00"}`), CreatedAt: at(1)}
}

func testMessages(w *world) {
	s := w.session(alice())
	var want []store.Message
	for i := range 6 {
		m := w.message(s.ID, unused(i))
		m.Output = i%2 == 1
		want = append(want, m)
	}
	w.tx(func(tx store.Tx) error {
		for _, m := range want {
			if err := tx.InsertMessage(w.ctx, m); err != nil {
				return err
			}
		}
		again := want[2] // known already: nothing happens
		again.ID, again.Data = w.id(), []byte(`{}`)
		return tx.InsertMessage(w.ctx, again)
	})
	page := func(p store.Page) []store.Message {
		w.Helper()
		return got[[]store.Message](w)(w.s.Messages(w.ctx, store.System(), s.ID, p))
	}
	same(w, page(store.Page{}), want)
	same(w, page(store.Page{Limit: 2}), want[4:])
	same(w, page(store.Page{Limit: 2, Before: want[4].ID}), want[2:4])
	same(w, page(store.Page{Limit: 2, After: want[0].ID}), want[1:3])
	same(w, page(store.Page{After: want[0].ID, Before: want[4].ID}), want[1:4])
	other := w.session(alice())
	w.tx(func(tx store.Tx) error { return tx.InsertMessage(w.ctx, w.message(other.ID, unused(0))) })
	same(w, len(page(store.Page{})), 6)
}

func testMessageUpsert(w *world) {
	s := w.session(alice())
	first, second := w.message(s.ID, "a"), w.message(s.ID, "b")
	w.move(store.UpsertMessage{Message: first}, store.UpsertMessage{Message: second})
	later := first
	later.ID, later.Data = w.id(), []byte(`{"id":"a","content":"more"}`)
	w.move(store.UpsertMessage{Message: later})
	first.Data = later.Data // the place and the id stay
	same(w, got[[]store.Message](w)(w.s.Messages(w.ctx, store.System(), s.ID, store.Page{})), []store.Message{first, second})
}

func testKnownMessageIDs(w *world) {
	const n = 700
	s := w.session(alice())
	asked := make([]string, 0, 2*n)
	w.tx(func(tx store.Tx) error {
		for i := range n {
			asked = append(asked, unused(i), unused(i+n))
			if err := tx.InsertMessage(w.ctx, w.message(s.ID, unused(i))); err != nil {
				return err
			}
		}
		return nil
	})
	for _, size := range []int{0, 1, 3, 4, 5, 33, 2 * n} {
		known, err := w.s.KnownMessageIDs(w.ctx, store.System(), s.ID, asked[:size])
		w.ok(err)
		for i := range asked[:size] {
			if known[asked[i]] != (i%2 == 0) {
				w.Fatalf("of %d, %s is known: %t", size, asked[i], known[asked[i]])
			}
		}
	}
}
