package storetest

import (
	"aqueduct/store"
)

func newMessage(env *storeEnv, sessionID, name string) store.Message {
	return store.Message{ID: env.id(), SessionID: sessionID, RunID: "r1", ExternalID: name, Role: "user",
		Data: []byte(`{"id":"` + name + `","content":"\u0000 \ud83d\ude00"}`), CreatedAt: at(1)}
}

func testMessages(env *storeEnv) {
	s := env.session(alice())
	var want []store.Message
	for i := range 6 {
		m := newMessage(env, s.ID, unused(i))
		m.Output = i%2 == 1
		want = append(want, m)
	}
	env.tx(func(tx store.Tx) error {
		for _, m := range want {
			if err := tx.InsertMessage(env.ctx, m); err != nil {
				return err
			}
		}
		again := want[2] // known already: nothing happens
		again.ID, again.Data = env.id(), []byte(`{}`)
		return tx.InsertMessage(env.ctx, again)
	})
	page := func(p store.Page) []store.Message {
		env.Helper()
		return got[[]store.Message](env)(env.s.Messages(env.ctx, store.System(), s.ID, p))
	}
	same(env, page(store.Page{}), want)
	same(env, page(store.Page{Limit: 2}), want[4:])
	same(env, page(store.Page{Limit: 2, Before: want[4].ID}), want[2:4])
	same(env, page(store.Page{Limit: 2, After: want[0].ID}), want[1:3])
	same(env, page(store.Page{After: want[0].ID, Before: want[4].ID}), want[1:4])
	other := env.session(alice())
	env.tx(func(tx store.Tx) error { return tx.InsertMessage(env.ctx, newMessage(env, other.ID, unused(0))) })
	same(env, len(page(store.Page{})), 6)
}

func testMessageUpsert(env *storeEnv) {
	s := env.session(alice())
	first, second := newMessage(env, s.ID, "a"), newMessage(env, s.ID, "b")
	env.move(store.UpsertMessage{Message: first}, store.UpsertMessage{Message: second})
	later := first
	later.ID, later.Data = env.id(), []byte(`{"id":"a","content":"more"}`)
	env.move(store.UpsertMessage{Message: later})
	first.Data = later.Data // the place and the id stay
	same(env, got[[]store.Message](env)(env.s.Messages(env.ctx, store.System(), s.ID, store.Page{})), []store.Message{first, second})
}

func testKnownMessageIDs(env *storeEnv) {
	const n = 700
	s := env.session(alice())
	asked := make([]string, 0, 2*n)
	env.tx(func(tx store.Tx) error {
		for i := range n {
			asked = append(asked, unused(i), unused(i+n))
			if err := tx.InsertMessage(env.ctx, newMessage(env, s.ID, unused(i))); err != nil {
				return err
			}
		}
		return nil
	})
	for _, size := range []int{0, 1, 3, 4, 5, 33, 2 * n} {
		known, err := env.s.KnownMessageIDs(env.ctx, store.System(), s.ID, asked[:size])
		env.ok(err)
		for i := range asked[:size] {
			if known[asked[i]] != (i%2 == 0) {
				env.Fatalf("of %d, %s is known: %t", size, asked[i], known[asked[i]])
			}
		}
	}
}
