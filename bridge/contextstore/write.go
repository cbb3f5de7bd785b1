// This file writes entries. Every write has the same order, which is what lets a crash leave nothing behind: refuse
// what can be refused without bytes, make the bytes durable (place), commit the row together with the moves of its
// blobs, and give up the bytes where the commit failed (placed).

package contextstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Content is what a version holds.
type Content struct {
	Type string // media type
	Data []byte
}

// Minting is an entry that is to be made.
type Minting struct {
	Owner
	Content
	Metadata []byte        // a JSON object; nil is none
	TTL      time.Duration // 0: it does not expire
}

// Change is a new version of an entry.
type Change struct {
	Content
	// TTL counts from now on; 0 ends the expiry, nil leaves it.
	TTL *time.Duration
	// If is the version that is replaced; nil is whichever there is.
	If *int64
}

// errMoved: another writer was faster.
var errMoved = errors.New("contextstore: the entry has another version")

// Mint makes an entry under a new key. It is refused with RefusedOwner or RefusedFull; store.ErrNotFound is an owner
// that the user does not have, and store.ErrUnavailable a blob store that is away.
func (s *Service) Mint(ctx context.Context, who Caller, n Minting) (store.ContextEntry, error) {
	of, err := ownerFor(ctx, s.cfg.Store, who, n.Owner)
	if err != nil {
		return store.ContextEntry{}, err
	}
	e := store.ContextEntry{
		Key: newID(), Tenant: who.Principal.Tenant, User: who.holder(of.kind).User, OwnerType: of.kind, OwnerID: of.id, SessionID: of.sessionID,
		Version: 1, Metadata: n.Metadata, CreatedAt: now(),
	}
	e.UpdatedAt = e.CreatedAt
	if n.TTL > 0 {
		e.ExpiresAt = e.CreatedAt.Add(n.TTL)
	}
	if err := s.room(ctx, who.holder(of.kind), store.ContextEntryOverhead+int64(len(n.Data))); err != nil {
		return store.ContextEntry{}, err
	}
	if err := s.place(ctx, &e, n.Content); err != nil {
		return store.ContextEntry{}, err
	}
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if err := s.lock(ctx, tx, e); err != nil {
			return err
		}
		if err := settleBlobs(ctx, tx, e, ""); err != nil {
			return err
		}
		if err := tx.InsertContextEntry(ctx, e); err != nil {
			return err
		}
		return s.note(ctx, tx, who, trace.ContextKept(e))
	})
	return e, s.placed(ctx, e, err)
}

// Put writes a new version of an entry. Without Change.If it goes over whatever version there is, also one that came
// while the bytes were written; with it RefusedVersion is the answer to that. An entry that the caller may not use is
// store.ErrNotFound.
func (s *Service) Put(ctx context.Context, who Caller, key string, c Change) (store.ContextEntry, error) {
	// Before the bytes are written: who may not change the entry, or comes too late, costs nothing.
	before, err := s.Entry(ctx, who, key)
	if err == nil && before.OwnerType == store.ContextOfUpload {
		err = foreign("An uploaded file does not change: upload another one.") // its URL names the hash of its bytes
	}
	if err == nil {
		err = expected(before, c.If)
	}
	if err == nil {
		err = s.room(ctx, who.holder(before.OwnerType), int64(len(c.Data))-before.Size)
	}
	if err != nil {
		return store.ContextEntry{}, err
	}
	next := before
	if err := s.place(ctx, &next, c.Content); err != nil {
		return store.ContextEntry{}, err
	}
	// The bytes lie there already and serve each try: only the row that they are put into is read anew.
	for range maxTries {
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			next, err = s.replace(ctx, tx, who, next, c)
			return err
		})
		if !errors.Is(err, errMoved) {
			break
		}
	}
	if errors.Is(err, errMoved) {
		err = conflict("The entry is written to by others all the time.")
	}
	err = s.placed(ctx, next, err)
	s.contents.look()
	return next, err
}

// replace writes what was placed over the version that the entry has now. errMoved is one that another writer has
// replaced since it was read; the transaction is run again then, with the same bytes.
func (s *Service) replace(ctx context.Context, tx store.Tx, who Caller, placed store.ContextEntry, c Change) (store.ContextEntry, error) {
	if err := s.lock(ctx, tx, placed); err != nil {
		return placed, err
	}
	old, err := s.entry(ctx, tx, who, placed.Key)
	if err == nil {
		err = expected(old, c.If)
	}
	if err != nil {
		return placed, err
	}
	next := placed
	next.Version, next.UpdatedAt, next.ExpiresAt = old.Version+1, now(), old.ExpiresAt
	if c.TTL != nil {
		next.ExpiresAt = time.Time{}
		if *c.TTL > 0 {
			next.ExpiresAt = next.UpdatedAt.Add(*c.TTL)
		}
	}
	written, err := tx.ReplaceContextEntry(ctx, next)
	if err == nil && !written {
		err = errMoved
	}
	if err == nil {
		err = settleBlobs(ctx, tx, next, old.BlobID)
	}
	if err == nil {
		err = s.note(ctx, tx, who, trace.ContextKept(next))
	}
	return next, err
}

// Delete removes an entry; with a version, only if it has that.
func (s *Service) Delete(ctx context.Context, who Caller, key string, version *int64) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		e, err := s.entry(ctx, tx, who, key)
		if err == nil {
			err = expected(e, version)
		}
		if err != nil {
			return err
		}
		gone, err := tx.DeleteContextEntry(ctx, key, e.Version)
		if err == nil && !gone {
			err = conflict("The entry was changed at this moment.")
		}
		if err == nil {
			err = doom(ctx, tx, e.BlobID)
		}
		if err != nil {
			return err
		}
		return s.note(ctx, tx, who, trace.ContextDropped(e))
	})
	s.contents.look()
	return err
}

// lock holds the Session of an entry, so that no entry is written into one that is deleted in this moment: its rows and
// blobs may have been looked for already.
func (s *Service) lock(ctx context.Context, tx store.Tx, e store.ContextEntry) error {
	if e.SessionID == "" {
		return nil
	}
	_, err := tx.LockSession(ctx, store.System(), e.SessionID)
	return err
}

// note keeps the Record of an agent's write, on the trace of its Turn. It has the key, and nothing of the content.
func (s *Service) note(ctx context.Context, tx store.Tx, who Caller, kept trace.ContextChange) error {
	if who.Agent == nil {
		return nil
	}
	return tx.InsertRecord(ctx, kept.Record(who.Agent.SessionID, who.Agent.TurnID, now()))
}

// expected compares the version that a caller means with the one that is there.
func expected(e store.ContextEntry, version *int64) error {
	if version == nil || *version == e.Version {
		return nil
	}
	return conflict(fmt.Sprintf("The entry has the version %d.", e.Version))
}

func conflict(why string) error { return fault.New(RefusedVersion, why) }

// UserBytes is how much one user's entries may hold.
func (s *Service) UserBytes() int64 { return s.cfg.UserBytes }

// room refuses what would make the user's entries hold more than they may. Two writes at once may both find room.
func (s *Service) room(ctx context.Context, who store.Principal, more int64) error {
	if more <= 0 {
		return nil
	}
	held, err := s.cfg.Store.ContextBytes(ctx, store.System(), who.Tenant, who.User)
	if err == nil && held+more > s.cfg.UserBytes {
		if s.cfg.Limited != nil {
			s.cfg.Limited("context")
		}
		err = fault.New(RefusedFull, fmt.Sprintf("The entries of this user hold %d bytes of %d. Delete some, or give them a ttl.", held, s.cfg.UserBytes))
	}
	return err
}

// place puts a content where the entry's next version refers to it: into the row, or into a blob.
func (s *Service) place(ctx context.Context, e *store.ContextEntry, c Content) error {
	e.ContentType, e.Size, e.SHA256, e.BlobID = c.Type, int64(len(c.Data)), "", ""
	if e.Data, e.KID = s.contents.conceal(refOf(e.Key), c.Data); e.KID == "" {
		e.SHA256 = sumOf(c.Data)
	}
	if s.contents.inRow(e.Data) {
		return nil
	}
	data := e.Data
	e.BlobID, e.Data = newID(), nil
	return s.contents.upload(ctx, e.BlobID, e.SessionID, data)
}

// settleBlobs moves the blobs of an entry with its row: the new one is referred to from now on, the old one is not.
func settleBlobs(ctx context.Context, tx store.Tx, e store.ContextEntry, old string) error {
	if e.BlobID != "" {
		if err := keep(ctx, tx, e.BlobID, e.SessionID); err != nil {
			return err
		}
	}
	return doom(ctx, tx, old)
}

// keep makes a blob one that a row refers to.
func keep(ctx context.Context, tx store.Tx, id, sessionID string) error {
	ok, err := tx.KeepBlob(ctx, id, sessionID)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the blob %s was swept before its row was written", store.ErrUnavailable, id)
	}
	return err
}

// doom gives up a blob that its row refers to no more; "" is none.
func doom(ctx context.Context, tx store.Tx, id string) error {
	if id == "" {
		return nil
	}
	_, err := tx.MoveBlob(ctx, id, store.BlobKept, store.BlobDoomed)
	return err
}

// placed ends a write. After an error its blob is given up.
func (s *Service) placed(ctx context.Context, e store.ContextEntry, err error) error {
	if err == nil {
		failpoint.Here("blob_kept")
		return nil
	}
	s.contents.abandon(ctx, e.BlobID)
	return err
}
