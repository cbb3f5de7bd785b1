// This file has the bytes of entries and attachments, and the life of their blobs: PENDING, KEPT, DOOMED
// (store/blobrow.go). What is done with a row's other columns is write.go's and attach.go's.

package contextstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/redact"
	"aqueduct/store"
	"aqueduct/store/blob"
)

// contents is where the bytes of entries and attachments lie: what is small in the row that it belongs to, the rest in blobs.
// It knows blobs and their rows, and nothing of what they are for.
type contents struct {
	store   store.Store
	blobs   blob.Store    // nil: rows hold all
	secrets redact.Hasher // finds contents with secrets in them, and encrypts those
	kick    chan struct{} // something is DOOMED
}

// sumOf is the SHA-256 of bytes in hexadecimal, by which equal parts of a thread are one row.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// inRow reports whether bytes stay in the row that they belong to.
func (c *contents) inRow(data []byte) bool { return c.blobs == nil || len(data) <= inlineContent }

// upload writes a blob, which is durable when upload returns nil, and PENDING until a row that refers to it is committed.
func (c *contents) upload(ctx context.Context, id, sessionID string, data []byte) error {
	row := store.Blob{ID: id, SessionID: sessionID, Status: store.BlobPending, CreatedAt: now()}
	if err := c.store.InTx(ctx, func(tx store.Tx) error { return tx.InsertBlob(ctx, row) }); err != nil {
		return err
	}
	failpoint.Here("blob_pending")
	up, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	// After an error the blob stays PENDING, because a bucket may finish the write when its client has given up: bytes
	// that came behind their deletion would have no row.
	if err := c.blobs.Put(up, id, data); err != nil {
		return away(err)
	}
	failpoint.Here("blob_durable")
	return nil
}

// away is a failure of the blob store: the caller may try again.
func away(err error) error { return fmt.Errorf("%w: the blob store: %w", store.ErrUnavailable, err) }

// abandonTime bounds the attempt to give up a blob at once. The sweep does what it does not manage.
const abandonTime = 5 * time.Second

// abandon gives up blobs whose rows were not written. One that a row refers to is KEPT and stays: the outcome of a commit
// may be unknown.
func (c *contents) abandon(ctx context.Context, blobs ...string) {
	blobs = slices.DeleteFunc(blobs, func(id string) bool { return id == "" })
	if len(blobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	gone := false
	err := c.store.InTx(ctx, func(tx store.Tx) error {
		gone = false
		for _, id := range blobs {
			moved, err := tx.MoveBlob(ctx, id, store.BlobPending, store.BlobDoomed)
			if err != nil {
				return err
			}
			gone = gone || moved
		}
		return nil
	})
	if err == nil && gone {
		c.look()
	}
}

// kept is where a content lies: in data, or in a blob. With a kid it is encrypted, bound to ref.
type kept struct {
	data      []byte
	blob      string
	kid, ref  string
	blobBytes int64 // of the content in a blob
}

// read opens a content. original: as it was written, and not with its secrets masked.
func (c *contents) read(ctx context.Context, original bool, k kept) (io.ReadSeekCloser, error) {
	from, err := c.stored(ctx, k)
	if err != nil || k.kid == "" {
		return from, err
	}
	data, err := io.ReadAll(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	if data, err = c.secrets.Vault.Open(k.ref, k.kid, data); err != nil {
		return nil, err
	}
	if !original {
		data = c.secrets.Filter.Bytes(data)
	}
	return held{bytes.NewReader(data)}, nil
}

// stored opens the bytes as they are kept.
func (c *contents) stored(ctx context.Context, k kept) (io.ReadSeekCloser, error) {
	if k.blob == "" {
		return held{bytes.NewReader(k.data)}, nil
	}
	if c.blobs == nil {
		return nil, fmt.Errorf("contextstore: %s is in a blob store, and none is set", k.ref)
	}
	size := k.blobBytes
	if k.kid != "" {
		size += redact.SealedOverhead
	}
	from, err := c.blobs.Open(ctx, k.blob, size)
	if err != nil {
		return nil, ofBlob(err)
	}
	return stored{from}, nil
}

// stored is a content in a blob store, which may go away while it is read.
type stored struct{ io.ReadSeekCloser }

// Read implements io.Reader.
func (s stored) Read(p []byte) (int, error) {
	n, err := s.ReadSeekCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = ofBlob(err)
	}
	return n, err
}

// ofBlob is an error of a blob that was read: its bytes are gone, or the store is away.
func ofBlob(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return away(err)
}

// held is a content that is in memory.
type held struct{ *bytes.Reader }

// Close implements io.Closer.
func (held) Close() error { return nil }

// conceal gives the bytes that are kept of a content. A text with secrets in it is encrypted as a whole, and kid names the
// key. In other bytes nothing is looked for.
func (c *contents) conceal(ref string, data []byte) (bytesKept []byte, kid string) {
	if c.secrets.Filter == nil || !utf8.Valid(data) || bytes.Equal(c.secrets.Filter.Bytes(data), data) {
		return data, ""
	}
	kid, bytesKept = c.secrets.Vault.Seal(ref, data)
	return bytesKept, kid
}

// look has Run look for what is DOOMED. The kick has one place: a second finds Run on its way.
func (c *contents) look() {
	if c.blobs == nil {
		return
	}
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// errNoBlobs: rows are left of a blob store that is not configured any more.
var errNoBlobs = errors.New("contextstore: there are blobs to delete, and no blob store is set")

// deleteDoomed deletes the bytes of doomed blobs, of one Session or of all, and each one's row behind them. One that cannot be
// deleted keeps none of the others.
func (c *contents) deleteDoomed(ctx context.Context, sessionID string) error {
	// A blob that cannot be deleted stays DOOMED, so the list goes on behind the last one and does not begin anew: it
	// would give the same ones without end.
	var last store.Blob
	var failed failures
	for {
		doomed, err := c.store.DoomedBlobs(ctx, store.System(), sessionID, last, sweepAtOnce)
		if err != nil || len(doomed) == 0 {
			return errors.Join(err, failed.all())
		}
		if c.blobs == nil {
			return errNoBlobs
		}
		last = doomed[len(doomed)-1]
		if err := c.deleteSome(ctx, doomed, &failed); err != nil || len(doomed) < sweepAtOnce {
			return errors.Join(err, failed.all())
		}
	}
}

// deleteSome deletes the bytes of some doomed blobs, and then their rows.
func (c *contents) deleteSome(ctx context.Context, doomed []store.Blob, failed *failures) error {
	failpoint.Here("blob_doomed")
	var gone []string
	for _, b := range doomed {
		switch err := c.blobs.Delete(ctx, b.ID); {
		case err == nil:
			gone = append(gone, b.ID)
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			failed.add(away(err))
		}
	}
	failpoint.Here("blob_deleted")
	return c.store.InTx(ctx, func(tx store.Tx) error {
		for _, id := range gone {
			if err := tx.RemoveBlob(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// failuresKept bounds the errors that one sweep reports: a store that is away fails all alike.
const failuresKept = 5

// failures are the errors of a sweep.
type failures struct {
	kept []error
	n    int
}

func (f *failures) add(err error) {
	if f.n++; f.n <= failuresKept {
		f.kept = append(f.kept, err)
	}
}

// all is nil without any.
func (f *failures) all() error {
	if f.n > failuresKept {
		return errors.Join(append(f.kept, fmt.Errorf("%d blobs could not be deleted", f.n))...)
	}
	return errors.Join(f.kept...)
}
