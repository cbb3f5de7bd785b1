package storetest

import (
	"bytes"
	"time"

	"aqueduct/store"
)

// entryOf is a context entry of a user's Session, or of the user where the Session is "".
func entryOf(env *storeEnv, p store.Principal, sessionID string) store.ContextEntry {
	e := store.ContextEntry{
		Key: env.id(), Tenant: p.Tenant, User: p.User, OwnerType: store.ContextOfSession, OwnerID: sessionID, SessionID: sessionID, Version: 1,
		ContentType: "text/plain", Size: 3, SHA256: "abc", Metadata: []byte(`{"b":1, "a":2}`), Data: []byte("one"), CreatedAt: at(1), UpdatedAt: at(1),
	}
	if sessionID == "" {
		e.OwnerType, e.OwnerID = store.ContextOfUser, p.User
	}
	return e
}

// testContextEntries: an entry is written by compare-and-set, is its user's, and goes with its Session.
func testContextEntries(env *storeEnv) {
	session := env.session(alice())
	e, own := entryOf(env, alice(), session.ID), entryOf(env, alice(), "")
	own.Data, own.BlobID, own.KID, own.ExpiresAt, own.Metadata = nil, "blob", "k", at(99), nil
	env.tx(func(tx store.Tx) error { return tx.InsertContextEntry(env.ctx, e) })
	env.tx(func(tx store.Tx) error { return tx.InsertContextEntry(env.ctx, own) })
	read := func(key string) store.ContextEntry {
		env.Helper()
		e := got[store.ContextEntry](env)(env.s.ContextEntry(env.ctx, store.As(alice()), key))
		same(env, len(e.Data), 0)
		e.Data = got[[]byte](env)(env.s.ContextData(env.ctx, store.As(alice()), key, e.Version))
		_, err := env.s.ContextData(env.ctx, store.As(alice()), key, e.Version+1)
		env.is(err, store.ErrNotFound)
		return e
	}
	same(env, read(e.Key), e)
	same(env, read(own.Key), own)
	for _, p := range []store.Principal{bob(), carol(), {}} {
		_, err := env.s.ContextEntry(env.ctx, store.As(p), own.Key)
		env.is(err, store.ErrNotFound)
	}
	same(env, got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), alice().Tenant, alice().User)), 6+2*store.ContextEntryOverhead)
	same(env, got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), bob().Tenant, bob().User)), 0)

	beside := entryOf(env, alice(), session.ID)
	env.move(store.InsertContext{Entry: beside})
	env.move(store.InsertContext{Entry: beside})
	same(env, read(beside.Key), beside)

	next := e
	next.Version, next.ContentType, next.Size, next.SHA256, next.Data = 2, "image/png", 4, "def", bytes.Repeat([]byte{0xff, 0}, 2)
	next.UpdatedAt, next.ExpiresAt = at(5), at(50)
	replaced := func(e store.ContextEntry, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.ReplaceContextEntry(env.ctx, e)), want)
			return nil
		})
	}
	replaced(next, true)
	replaced(next, false) // it has that version now
	same(env, read(e.Key), next)

	// Lists are without contents too, newest first, and without what has expired.
	keys := func(of store.ContextOwner, id string, now time.Time, p store.Page) (keys []string) {
		env.Helper()
		for _, e := range got[[]store.ContextEntry](env)(env.s.ContextEntries(env.ctx, store.As(alice()), of, id, now, p)) {
			same(env, len(e.Data), 0)
			keys = append(keys, e.Key)
		}
		return keys
	}
	same(env, keys("", "", at(1), store.Page{}), []string{beside.Key, own.Key, e.Key})
	same(env, keys("", "", at(1), store.Page{Limit: 1, After: beside.Key}), []string{own.Key})
	same(env, keys("", "", at(50), store.Page{}), []string{beside.Key, own.Key})
	same(env, keys(store.ContextOfSession, session.ID, at(1), store.Page{}), []string{beside.Key, e.Key})
	same(env, keys(store.ContextOfSession, "none", at(1), store.Page{}), nil)

	// What has expired is listed without its content.
	listed := next
	listed.Data = nil
	expired := func(now time.Time, limit int) []store.ContextEntry {
		env.Helper()
		return got[[]store.ContextEntry](env)(env.s.ExpiredContext(env.ctx, store.System(), now, limit))
	}
	same(env, expired(at(49), 10), nil)
	same(env, expired(at(50), 10), []store.ContextEntry{listed})
	same(env, len(expired(at(99), 10)), 2)
	same(env, expired(at(99), 1), []store.ContextEntry{listed})
	same(env, next.Expired(at(49)) || !next.Expired(at(50)) || e.Expired(at(99)), false)

	removed := func(version int64, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.DeleteContextEntry(env.ctx, own.Key, version)), want)
			return nil
		})
	}
	removed(2, false)
	removed(1, true)
	removed(1, false)

	// Those of a hidden Session are gone at once.
	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, session.ID, at(60)) })
	_, err := env.s.ContextEntry(env.ctx, store.System(), e.Key)
	env.is(err, store.ErrNotFound)
	same(env, got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), alice().Tenant, alice().User)), 0)
	purgeSession(env, session.ID)
	same(env, got[int64](env)(env.s.ContextBytes(env.ctx, store.System(), alice().Tenant, alice().User)), 0)
}

// testBlobs: a blob's row moves one way, and each move is made once.
func testBlobs(env *storeEnv) {
	insert := func(session string, ms int64) store.Blob {
		b := store.Blob{ID: env.id(), SessionID: session, Status: store.BlobPending, CreatedAt: at(ms)}
		env.tx(func(tx store.Tx) error { return tx.InsertBlob(env.ctx, b) })
		return b
	}
	move := func(b store.Blob, from, to store.BlobStatus, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.MoveBlob(env.ctx, b.ID, from, to)), want)
			return nil
		})
	}
	doomed := func(session string) (ids []string) {
		env.Helper()
		for _, b := range got[[]store.Blob](env)(env.s.DoomedBlobs(env.ctx, store.System(), session, store.Blob{}, 10)) {
			same(env, b.Status, store.BlobDoomed)
			ids = append(ids, b.ID)
		}
		return ids
	}
	old, young, kept, other, none := insert("s", 1), insert("s", 5), insert("s", 1), insert("t", 1), insert("", 1)
	for _, b := range []store.Blob{kept, other, none} {
		move(b, store.BlobPending, store.BlobKept, true)
		move(b, store.BlobPending, store.BlobKept, false)
	}
	same(env, doomed(""), nil)
	later := insert("", 9)
	keep := func(want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.KeepBlob(env.ctx, later.ID, "u")), want)
			return nil
		})
	}
	keep(true)
	keep(false)
	env.tx(func(tx store.Tx) error { return tx.DoomBlobsOf(env.ctx, "u") })
	same(env, doomed("u"), []string{later.ID})
	env.tx(func(tx store.Tx) error { return tx.RemoveBlob(env.ctx, later.ID) })
	env.tx(func(tx store.Tx) error { return tx.DoomPending(env.ctx, at(5)) })
	same(env, doomed(""), []string{old.ID})
	move(old, store.BlobPending, store.BlobKept, false) // its write came too late
	move(none, store.BlobKept, store.BlobDoomed, true)
	env.tx(func(tx store.Tx) error { return tx.DoomBlobsOf(env.ctx, "") }) // that is no Session
	env.tx(func(tx store.Tx) error { return tx.DoomBlobsOf(env.ctx, "s") })
	same(env, doomed("s"), []string{old.ID, kept.ID})
	same(env, doomed("t"), nil)
	same(env, len(doomed("")), 3)
	env.tx(func(tx store.Tx) error { return tx.RemoveBlob(env.ctx, old.ID) })
	env.tx(func(tx store.Tx) error { return tx.RemoveBlob(env.ctx, young.ID) }) // it is not doomed
	same(env, doomed("s"), []string{kept.ID})
	move(young, store.BlobPending, store.BlobKept, true)
	same(env, len(got[[]store.Blob](env)(env.s.DoomedBlobs(env.ctx, store.As(alice()), "", store.Blob{}, 10))), 0)
}
