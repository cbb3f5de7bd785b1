package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Rows of the bytes that a blob store holds.
	blobReader struct{ *conn }

	// Their status moves by compare-and-set.
	blobTx struct{ *conn }
)

func blobInto(b *store.Blob) []any {
	return []any{&b.ID, &b.SessionID, &b.Status, timeInto{&b.CreatedAt}}
}

// DoomedBlobs implements store.BlobReader. Oldest first, behind a row: one whose bytes cannot be deleted stays, and
// must not keep the list from going on.
func (r *blobReader) DoomedBlobs(ctx context.Context, in store.Scope, sessionID string, after store.Blob, limit int) ([]store.Blob, error) {
	if !in.All() {
		return nil, nil
	}
	q := from("SELECT b.blob_id, b.session_id, b.status, b.created_at FROM blobs b").and("b.status = ", string(store.BlobDoomed))
	if sessionID != "" {
		q.and("b.session_id = ", sessionID)
	}
	if after.ID != "" {
		q.and("(b.created_at > ", millis(after.CreatedAt)).raw(" OR b.created_at = ").bind(millis(after.CreatedAt)).and("b.blob_id > ", after.ID).raw(")")
	}
	q.raw(" ORDER BY b.created_at, b.blob_id").limit(limit)
	return list(ctx, r.conn, scanning(blobInto), q.sql.String(), q.args...)
}

// InsertBlob implements store.BlobTx.
func (t *blobTx) InsertBlob(ctx context.Context, b store.Blob) error {
	return t.insert(ctx, "INSERT INTO blobs (blob_id, session_id, status, created_at) VALUES ($1, $2, $3, $4)",
		b.ID, b.SessionID, string(b.Status), millis(b.CreatedAt))
}

// KeepBlob implements store.BlobTx. The Session is set here, because the blob of an attachment is written before its
// thread is known.
func (t *blobTx) KeepBlob(ctx context.Context, id, sessionID string) (bool, error) {
	return t.change(ctx, "UPDATE blobs SET status = $3, session_id = $2 WHERE blob_id = $1 AND status = $4", id, sessionID, string(store.BlobKept), string(store.BlobPending))
}

// MoveBlob implements store.BlobTx.
func (t *blobTx) MoveBlob(ctx context.Context, id string, from, to store.BlobStatus) (bool, error) {
	return t.change(ctx, "UPDATE blobs SET status = $3 WHERE blob_id = $1 AND status = $2", id, string(from), string(to))
}

// DoomPending implements store.BlobTx. A write that goes on for longer than that finds its row DOOMED when it commits
// (KeepBlob), and fails.
func (t *blobTx) DoomPending(ctx context.Context, before time.Time) error {
	return t.run(ctx, "UPDATE blobs SET status = $2 WHERE status = $3 AND created_at < $1", millis(before), string(store.BlobDoomed), string(store.BlobPending))
}

// DoomBlobsOf implements store.BlobTx.
func (t *blobTx) DoomBlobsOf(ctx context.Context, sessionID string) error {
	if sessionID == "" {
		return nil // those of users and agents belong to no Session
	}
	return t.run(ctx, "UPDATE blobs SET status = $2 WHERE session_id = $1 AND status = $3", sessionID, string(store.BlobDoomed), string(store.BlobKept))
}

// RemoveBlob implements store.BlobTx. Only a row that is DOOMED goes, so that no bytes are left of which there is no
// row.
func (t *blobTx) RemoveBlob(ctx context.Context, id string) error {
	return t.run(ctx, "DELETE FROM blobs WHERE blob_id = $1 AND status = $2", id, string(store.BlobDoomed))
}
