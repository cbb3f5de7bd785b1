// Package blob is where bytes lie that are too large for a row. A blob is written once, whole, under an id that is used
// for nothing else, and stays as it is until it is deleted.
//
// What a blob is for, and whether it is still needed, stands in its row in the database (store.Blob). A Store keeps bytes and
// nothing else: it is never listed, so nothing in it is taken for what it is not.
package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// ErrNotFound is the error of Open for a blob that is not there.
var ErrNotFound = errors.New("blob: not found")

// Store keeps blobs. Its methods are safe for concurrent use. An id is a UUID in lower case.
type Store interface {
	// Put writes a blob. It is durable when Put returns nil; after an error it may be there whole, or not at all.
	Put(ctx context.Context, id string, data []byte) error
	// Open reads a blob of that size. The context bounds all reads, not Open alone.
	Open(ctx context.Context, id string, size int64) (io.ReadSeekCloser, error)
	// Delete removes a blob, and what an unfinished Put left of one. Nothing is wrong with one that is not there.
	Delete(ctx context.Context, id string) error
}

// Probe writes, reads and deletes a blob: a store that cannot do these must not be found out by the first upload. The
// id is the caller's: there is no row of what a killed probe leaves, so the next one has to write over it.
func Probe(ctx context.Context, s Store, id string) error {
	want := []byte(rand.Text())
	if err := s.Put(ctx, id, want); err != nil {
		return fmt.Errorf("writing a blob: %w", err)
	}
	err := read(ctx, s, id, want)
	return errors.Join(err, s.Delete(ctx, id))
}

func read(ctx context.Context, s Store, id string, want []byte) error {
	from, err := s.Open(ctx, id, int64(len(want)))
	if err != nil {
		return fmt.Errorf("reading a blob: %w", err)
	}
	got, err := io.ReadAll(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("reading a blob: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("reading a blob: it has other bytes than were written")
	}
	return nil
}
