package storetest

import (
	"bytes"
	"strings"

	"aqueduct/store"
)

func testMessageParts(w *world) {
	s, other := w.session(alice()), w.session(alice())
	p := store.MessagePart{SessionID: s.ID, SHA256: strings.Repeat("ab", 32), MimeType: "image/png",
		Data: bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, 1<<19), CreatedAt: at(1)}
	again := p
	again.MimeType, again.CreatedAt = "text/html", at(2) // known already: nothing happens
	w.tx(func(tx store.Tx) error { return tx.InsertMessagePart(w.ctx, p) })
	w.tx(func(tx store.Tx) error { return tx.InsertMessagePart(w.ctx, again) })
	w.move(store.InsertPart{Part: again})
	same(w, got[store.MessagePart](w)(w.s.MessagePart(w.ctx, store.As(alice()), s.ID, p.SHA256)), p)
	_, err := w.s.MessagePart(w.ctx, store.System(), other.ID, p.SHA256)
	w.is(err, store.ErrNotFound) // a Session's parts are its own
	p.SessionID = other.ID
	w.move(store.InsertPart{Part: p})
	same(w, got[store.MessagePart](w)(w.s.MessagePart(w.ctx, store.System(), other.ID, p.SHA256)), p)

	m := w.message(s.ID, "a")
	w.tx(func(tx store.Tx) error { return tx.InsertMessage(w.ctx, m) })
	m.Data = []byte(`{"id":"a","content":"smaller"}`)
	w.tx(func(tx store.Tx) error { return tx.ReplaceMessageData(w.ctx, m.ID, m.Data) })
	same(w, got[[]store.Message](w)(w.s.Messages(w.ctx, store.System(), s.ID, store.Page{})), []store.Message{m})
	w.tx(func(tx store.Tx) error { return tx.ReplaceMessageData(w.ctx, w.id(), m.Data) }) // it is gone: no error
}

// testMessagesWithin: a page ends with the message that reaches its bytes, so that one of any size can be read.
func testMessagesWithin(w *world) {
	s := w.session(alice())
	var all []store.Message
	for i := range 6 {
		m := w.message(s.ID, unused(i))
		m.Data = []byte(`"` + strings.Repeat("é", 499) + `"`) // 1000 bytes, fewer characters
		all = append(all, m)
	}
	w.tx(func(tx store.Tx) error {
		for _, m := range all {
			if err := tx.InsertMessage(w.ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	page := func(p store.Page) []store.Message {
		w.Helper()
		return got[[]store.Message](w)(w.s.Messages(w.ctx, store.System(), s.ID, p))
	}
	same(w, page(store.Page{MaxBytes: 1}), all[5:])
	same(w, page(store.Page{MaxBytes: 1000}), all[5:])
	same(w, page(store.Page{MaxBytes: 1001}), all[4:])
	same(w, page(store.Page{MaxBytes: 2500, Before: all[4].ID}), all[1:4])
	same(w, page(store.Page{MaxBytes: 1500, After: all[0].ID}), all[1:3])
	same(w, page(store.Page{MaxBytes: 1 << 20, Limit: 2}), all[4:])
	same(w, page(store.Page{MaxBytes: 1 << 20}), all)
}
