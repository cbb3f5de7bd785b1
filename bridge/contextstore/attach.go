// This file makes parts of messages out of entries: a file that was uploaded is an entry first, and becomes a part
// when a message names it (bridge/attachments.go). The bytes are copied and never shared, because entries and threads
// are deleted apart from each other.

package contextstore

import (
	"context"
	"errors"
	"io"

	"aqueduct/store"
)

// Attachment is a part for a message, made of an entry: its bytes are the part's own, so the entry may end and the part may
// be deleted with its thread.
type Attachment struct {
	part store.MessagePart
}

// Attach reads an entry and writes its bytes for a part. It is called outside of the transaction that keeps the message; a
// blob of its is PENDING until Keep. Release is called in any case. An entry that the caller may not use is store.ErrNotFound.
func (s *Service) Attach(ctx context.Context, who Caller, key string) (a Attachment, err error) {
	e, err := s.Entry(ctx, who, key)
	if err == nil {
		err = s.room(ctx, who.Principal, e.Size)
	}
	if err != nil {
		return a, err
	}
	data, err := s.original(ctx, who, e)
	if err != nil {
		return a, err
	}
	return s.attach(ctx, data, e.ContentType)
}

// AttachPart is Attach for a part of another thread of the caller's, which lies in a blob.
func (s *Service) AttachPart(ctx context.Context, who Caller, part store.MessagePart) (a Attachment, err error) {
	if err := s.room(ctx, who.Principal, part.BlobSize); err != nil {
		return a, err
	}
	from, err := s.Part(ctx, part, true)
	if err != nil {
		return a, err
	}
	data, err := io.ReadAll(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return a, err
	}
	return s.attach(ctx, data, part.MimeType)
}

// attach writes bytes for a part. A small one stays in the row, where the Store that masks rows sees it; a blob with
// secrets in it is encrypted here (conceal).
func (s *Service) attach(ctx context.Context, data []byte, kind string) (a Attachment, err error) {
	a.part = store.MessagePart{SHA256: sumOf(data), MimeType: kind, Data: data, CreatedAt: now()}
	if s.contents.inRow(data) {
		return a, nil
	}
	a.part.BlobID, a.part.BlobSize, a.part.Data = newID(), int64(len(data)), nil
	data, a.part.KID = s.contents.conceal(refOfPart(a.part.BlobID), data)
	return a, s.contents.upload(ctx, a.part.BlobID, "", data)
}

// original is what was written to an entry, unmasked also for a user: it goes to the agent that gets the message.
func (s *Service) original(ctx context.Context, who Caller, e store.ContextEntry) ([]byte, error) {
	_, from, err := s.content(ctx, who, e, true)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(from)
	return data, errors.Join(err, from.Close())
}

// Keep writes the part of a Session, whose lock is held, in the transaction of the message that names it. Where the Session has the same
// bytes already, those are meant.
func (a Attachment) Keep(ctx context.Context, tx store.Tx, sessionID string) (store.MessagePart, error) {
	there, err := tx.MessagePart(ctx, store.System(), sessionID, a.part.SHA256)
	if !errors.Is(err, store.ErrNotFound) {
		return there, err
	}
	part := a.part
	part.SessionID = sessionID
	if part.BlobID != "" {
		if err := keep(ctx, tx, part.BlobID, sessionID); err != nil {
			return part, err
		}
	}
	return part, tx.InsertMessagePart(ctx, part)
}

// Release gives up the blobs of attachments that no message has kept.
func (s *Service) Release(ctx context.Context, all ...Attachment) {
	blobs := make([]string, len(all))
	for i, a := range all {
		blobs[i] = a.part.BlobID
	}
	s.contents.abandon(ctx, blobs...)
}

// Part opens the bytes of a part that lies in a blob. original: as they were written, and not with their secrets masked.
func (s *Service) Part(ctx context.Context, p store.MessagePart, original bool) (io.ReadSeekCloser, error) {
	return s.contents.read(ctx, original, kept{p.Data, p.BlobID, p.KID, refOfPart(p.BlobID), p.BlobSize})
}

// refOfPart binds what is encrypted to the part's blob: the Session is not known when it is written.
func refOfPart(blobID string) string { return "part:" + blobID }
