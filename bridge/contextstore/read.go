// This file reads entries and their contents. A row is read before its content, and both may change in between;
// Content is what joins them again.

package contextstore

import (
	"context"
	"errors"
	"io"

	"aqueduct/store"
)

// Entry is the newest version of an entry. The content is read by Content.
func (s *Service) Entry(ctx context.Context, who Caller, key string) (store.ContextEntry, error) {
	return s.entry(ctx, s.cfg.Store, who, key)
}

// List is a page of the entries of an owner, without their contents, the newest first. Without an owner's type a user gets all of
// the user's, and an agent those of its Session.
func (s *Service) List(ctx context.Context, who Caller, of Owner, p store.Page) ([]store.ContextEntry, error) {
	if of.Type == "" && who.Agent == nil {
		return s.cfg.Store.ContextEntries(ctx, who.scope(), "", "", now(), p)
	}
	owner, err := ownerFor(ctx, s.cfg.Store, who, of)
	if err != nil {
		return nil, err
	}
	return s.cfg.Store.ContextEntries(ctx, store.As(who.holder(owner.kind)), owner.kind, owner.id, now(), p)
}

// entry reads an entry that the caller may use. To others, and from the end of its time on, it is not there.
func (s *Service) entry(ctx context.Context, from store.Reader, who Caller, key string) (store.ContextEntry, error) {
	e, err := from.ContextEntry(ctx, who.scope(), key)
	if errors.Is(err, store.ErrNotFound) && who.Agent != nil && who.Agent.SessionUser != who.Principal.User {
		e, err = from.ContextEntry(ctx, store.As(who.holder(store.ContextOfSession)), key)
	}
	if err == nil && (e.Expired(now()) || !who.sees(e)) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.ContextEntry{}, err
	}
	return e, nil
}

// Content reads what an entry holds, and returns the version that it belongs to: when the entry was replaced since e was
// read, e's blob may be gone. An agent gets what was written. A user gets it with its secrets masked, as everywhere.
func (s *Service) Content(ctx context.Context, who Caller, e store.ContextEntry) (store.ContextEntry, io.ReadSeekCloser, error) {
	return s.content(ctx, who, e, who.Agent != nil)
}

// content is Content for a caller that decides itself whether secrets are masked. A content that is gone is looked
// for in the version that has replaced it; where there is no newer one, the error stands.
func (s *Service) content(ctx context.Context, who Caller, e store.ContextEntry, original bool) (store.ContextEntry, io.ReadSeekCloser, error) {
	for {
		data, err := inRow(ctx, s.cfg.Store, e)
		var from io.ReadSeekCloser
		if err == nil {
			from, err = s.contents.read(ctx, original, kept{data, e.BlobID, e.KID, refOf(e.Key), e.Size})
		}
		if err == nil {
			return e, from, nil
		}
		newer, again := s.Entry(ctx, who, e.Key)
		if again != nil || newer.Version == e.Version {
			return e, nil, errors.Join(again, err)
		}
		e = newer
	}
}

// inRow reads what lies in the entry's row. Its size counts before it is read, so the row's other columns are read alone.
func inRow(ctx context.Context, from store.Reader, e store.ContextEntry) ([]byte, error) {
	if e.BlobID != "" {
		return nil, nil
	}
	return from.ContextData(ctx, store.System(), e.Key, e.Version)
}

// refOf binds what is encrypted to its entry, whatever its version: moved to another row it does not open
// (redact.Vault).
func refOf(key string) string { return "context:" + key }
