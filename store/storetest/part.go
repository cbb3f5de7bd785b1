package storetest

import (
	"bytes"
	"strings"

	"aqueduct/store"
)

func testMessageParts(env *storeEnv) {
	s, other := env.session(alice()), env.session(alice())
	p := store.MessagePart{SessionID: s.ID, SHA256: strings.Repeat("ab", 32), MimeType: "image/png",
		Data: bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, 1<<19), CreatedAt: at(1)}
	again := p
	again.MimeType, again.CreatedAt = "text/html", at(2) // known already: nothing happens
	env.tx(func(tx store.Tx) error { return tx.InsertMessagePart(env.ctx, p) })
	env.tx(func(tx store.Tx) error { return tx.InsertMessagePart(env.ctx, again) })
	env.move(store.InsertPart{Part: again})
	same(env, got[store.MessagePart](env)(env.s.MessagePart(env.ctx, store.As(alice()), s.ID, p.SHA256)), p)
	_, err := env.s.MessagePart(env.ctx, store.System(), other.ID, p.SHA256)
	env.is(err, store.ErrNotFound) // a Session's parts are its own
	p.SessionID = other.ID
	env.move(store.InsertPart{Part: p})
	same(env, got[store.MessagePart](env)(env.s.MessagePart(env.ctx, store.System(), other.ID, p.SHA256)), p)

	uploaded := store.MessagePart{SessionID: s.ID, SHA256: strings.Repeat("cd", 32), MimeType: "video/mp4", BlobID: "b", BlobSize: 7, KID: "k", CreatedAt: at(3)}
	before := got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), alice().Tenant, alice().User))
	env.tx(func(tx store.Tx) error { return tx.InsertMessagePart(env.ctx, uploaded) })
	same(env, got[store.MessagePart](env)(env.s.MessagePart(env.ctx, store.As(alice()), s.ID, uploaded.SHA256)), uploaded)
	same(env, got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), alice().Tenant, alice().User))-before, 7)

	m := newMessage(env, s.ID, "a")
	env.tx(func(tx store.Tx) error { return tx.InsertMessage(env.ctx, m) })
	m.Data = []byte(`{"id":"a","content":"smaller"}`)
	env.tx(func(tx store.Tx) error { return tx.ReplaceMessageData(env.ctx, m.ID, m.Data) })
	same(env, got[[]store.Message](env)(env.s.Messages(env.ctx, store.System(), s.ID, store.Page{})), []store.Message{m})
	env.tx(func(tx store.Tx) error { return tx.ReplaceMessageData(env.ctx, env.id(), m.Data) }) // it is gone: no error
}

// testMessagesWithin: a page ends with the message that reaches its bytes, so that one of any size can be read.
func testMessagesWithin(env *storeEnv) {
	s := env.session(alice())
	var all []store.Message
	for i := range 6 {
		m := newMessage(env, s.ID, unused(i))
		m.Data = []byte(`"` + strings.Repeat("é", 499) + `"`) // 1000 bytes, fewer characters
		all = append(all, m)
	}
	env.tx(func(tx store.Tx) error {
		for _, m := range all {
			if err := tx.InsertMessage(env.ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	page := func(p store.Page) []store.Message {
		env.Helper()
		return got[[]store.Message](env)(env.s.Messages(env.ctx, store.System(), s.ID, p))
	}
	same(env, page(store.Page{MaxBytes: 1}), all[5:])
	same(env, page(store.Page{MaxBytes: 1000}), all[5:])
	same(env, page(store.Page{MaxBytes: 1001}), all[4:])
	same(env, page(store.Page{MaxBytes: 2500, Before: all[4].ID}), all[1:4])
	same(env, page(store.Page{MaxBytes: 1500, After: all[0].ID}), all[1:3])
	same(env, page(store.Page{MaxBytes: 1 << 20, Limit: 2}), all[4:])
	same(env, page(store.Page{MaxBytes: 1 << 20}), all)
}
