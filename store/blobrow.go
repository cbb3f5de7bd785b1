package store

import (
	"context"
	"time"
)

// BlobStatus is how far a Blob is.
type BlobStatus string

// The states of a Blob. PENDING becomes KEPT, and either becomes DOOMED; the row of one that is DOOMED is deleted behind its
// bytes.
const (
	BlobPending BlobStatus = "PENDING" // its bytes are being written
	BlobKept    BlobStatus = "KEPT"    // a row refers to it
	BlobDoomed  BlobStatus = "DOOMED"  // nothing refers to it; its bytes are being deleted
)

// Blob is the row of bytes that a blob store holds. It is written before the first byte and deleted behind the last, so at
// no moment is there a blob without a row: what a crash leaves is found here, and the blob store is never listed.
type Blob struct {
	ID        string
	SessionID string // the thread that takes it with it when it is deleted; "" for none, or none yet
	Status    BlobStatus
	CreatedAt time.Time
}

// BlobReader reads Blobs.
type BlobReader interface {
	// DoomedBlobs lists Blobs whose bytes are to be deleted, of one Session or, for "", of all, the oldest first and from behind
	// one on. Only a Scope that sees everything sees any.
	DoomedBlobs(ctx context.Context, in Scope, sessionID string, after Blob, limit int) ([]Blob, error)
}

// BlobTx writes Blobs.
type BlobTx interface {
	InsertBlob(ctx context.Context, b Blob) error
	// KeepBlob makes a PENDING Blob one that a row of the Session refers to, or of none where that is "". False when it is not
	// PENDING any more.
	KeepBlob(ctx context.Context, id, sessionID string) (bool, error)
	// MoveBlob is false when the Blob does not have the status from.
	MoveBlob(ctx context.Context, id string, from, to BlobStatus) (bool, error)
	// DoomPending dooms Blobs that are PENDING since before a time: who wrote them is gone.
	DoomPending(ctx context.Context, before time.Time) error
	// DoomBlobsOf dooms the KEPT Blobs of a Session. One that is PENDING stays: its bytes may still come.
	DoomBlobsOf(ctx context.Context, sessionID string) error
	// RemoveBlob deletes the row of a DOOMED Blob.
	RemoveBlob(ctx context.Context, id string) error
}
