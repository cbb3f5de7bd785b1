package contextstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"aqueduct/bridge/redact"
	"aqueduct/store"
	"aqueduct/store/blob"
)

// Entry is the newest version of an entry. The content is read by Content.
func (s *Service) Entry(ctx context.Context, who Caller, key string) (store.ContextEntry, error) {
	return s.entry(ctx, s.cfg.Store, who, key)
}

// entry reads an entry that the caller may use. To others, and from the end of its time on, it is not there.
func (s *Service) entry(ctx context.Context, from store.Reader, who Caller, key string) (store.ContextEntry, error) {
	e, err := from.ContextEntry(ctx, who.scope(), key)
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
	for {
		from, err := s.stored(ctx, e)
		if err == nil {
			from, err = s.reveal(who, e, from)
			return e, from, err
		}
		newer, again := s.Entry(ctx, who, e.Key)
		if again != nil || newer.Version == e.Version {
			return e, nil, errors.Join(again, err)
		}
		e = newer
	}
}

// stored opens the bytes as they are kept.
func (s *Service) stored(ctx context.Context, e store.ContextEntry) (io.ReadSeekCloser, error) {
	if e.BlobID == "" {
		return held{bytes.NewReader(e.Data)}, nil
	}
	if s.cfg.Blobs == nil {
		return nil, fmt.Errorf("contextstore: entry %s is in a blob store, and none is set", e.Key)
	}
	size := e.Size
	if e.KID != "" {
		size += redact.SealedOverhead
	}
	from, err := s.cfg.Blobs.Open(ctx, e.BlobID, size)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		err = away(err)
	}
	return from, err
}

// held is a content that is in memory.
type held struct{ *bytes.Reader }

// Close implements io.Closer.
func (held) Close() error { return nil }

// reveal gives the content of stored bytes.
func (s *Service) reveal(who Caller, e store.ContextEntry, from io.ReadSeekCloser) (io.ReadSeekCloser, error) {
	if e.KID == "" {
		return from, nil
	}
	data, err := io.ReadAll(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	data, err = s.cfg.Secrets.Vault.Open(refOf(e.Key), e.KID, data)
	if err != nil {
		return nil, err
	}
	if who.Agent == nil {
		data = s.cfg.Secrets.Filter.Bytes(data)
	}
	return held{bytes.NewReader(data)}, nil
}

// conceal gives the bytes that are kept of a content. A text with secrets in it is encrypted as a whole, and kid names the
// key. In other bytes nothing is looked for.
func (s *Service) conceal(key string, data []byte) (kept []byte, kid string) {
	if s.cfg.Secrets.Filter == nil || !utf8.Valid(data) || bytes.Equal(s.cfg.Secrets.Filter.Bytes(data), data) {
		return data, ""
	}
	kid, kept = s.cfg.Secrets.Vault.Seal(refOf(key), data)
	return kept, kid
}

// refOf binds what is encrypted to its entry.
func refOf(key string) string { return "context:" + key }
