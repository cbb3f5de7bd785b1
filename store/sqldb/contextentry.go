package sqldb

import (
	"context"
	"errors"
	"time"

	"aqueduct/store"
)

type (
	// Entries of the context store. Those of Sessions are seen as long as their Session is.
	contextReader struct{ *conn }

	// A write is a compare-and-set on the version.
	contextTx struct{ *conn }
)

const (
	contextColumns = `c.context_key, c.tenant, c.user_id, c.owner_type, c.owner_id, c.session_id, c.version, c.content_type, c.size,
	c.sha256, c.metadata, c.blob_id, c.kid, c.created_at, c.updated_at, c.expires_at`
	// contextOfLiving selects entries of no Session, or of one that is not hidden.
	contextOfLiving = ` AND (c.session_id = '' OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = c.session_id AND s.deleted_at = 0))`
)

func contextInto(e *store.ContextEntry) []any {
	return []any{
		&e.Key, &e.Tenant, &e.User, &e.OwnerType, &e.OwnerID, &e.SessionID, &e.Version, &e.ContentType, &e.Size,
		&e.SHA256, &e.Metadata, &e.BlobID, &e.KID, timeInto{&e.CreatedAt}, timeInto{&e.UpdatedAt}, timeInto{&e.ExpiresAt},
	}
}

// ContextEntry implements store.ContextReader.
func (r *contextReader) ContextEntry(ctx context.Context, in store.Scope, key string) (store.ContextEntry, error) {
	if blind(in) {
		return store.ContextEntry{}, store.ErrNotFound
	}
	q := from("SELECT "+contextColumns+" FROM context_blobs c").and("c.context_key = ", key)
	q.ofScope(in, "c.tenant", "c.user_id").raw(contextOfLiving)
	return one(ctx, r.conn, scanning(contextInto), q.sql.String(), q.args...)
}

// ContextData implements store.ContextReader. The version is part of what is asked for, so a content never comes with
// the row of another version.
func (r *contextReader) ContextData(ctx context.Context, in store.Scope, key string, version int64) ([]byte, error) {
	if blind(in) {
		return nil, store.ErrNotFound
	}
	q := from("SELECT c.data FROM context_blobs c").and("c.context_key = ", key).and("c.version = ", version)
	q.ofScope(in, "c.tenant", "c.user_id").raw(contextOfLiving)
	return one(ctx, r.conn, func(at row) (data []byte, err error) {
		err = at.Scan(&data)
		if len(data) == 0 { // the databases differ in how they give none
			data = nil
		}
		return data, err
	}, q.sql.String(), q.args...)
}

// ContextEntries implements store.ContextReader.
func (r *contextReader) ContextEntries(ctx context.Context, in store.Scope, ownerType store.ContextOwner, ownerID string, now time.Time, p store.Page) ([]store.ContextEntry, error) {
	if blind(in) {
		return nil, nil
	}
	q, key := from("SELECT "+contextColumns+" FROM context_blobs c"), listedBy(in, "c.context_key")
	if ownerType != "" {
		q.raw(" AND COALESCE(TRUE").ofScope(in, "c.tenant", "c.user_id").raw(", FALSE)")
		q.ofList(store.System(), "", "", value{"c.owner_type", string(ownerType)}, value{"c.owner_id", ownerID})
		key = "(c.context_key || '')"
	} else {
		q.ofList(in, "c.tenant", "c.user_id")
	}
	q.raw(contextOfLiving + " AND (c.expires_at = 0").raw(" OR c.expires_at > ").bind(millis(now)).raw(")")
	return newestFirst(ctx, r.conn, scanning(contextInto), q, key, p)
}

// ContextBytes implements store.ContextReader. Triggers keep the sum, of entries and of parts of messages that lie in
// blobs.
func (r *contextReader) ContextBytes(ctx context.Context, in store.Scope, tenant, user string) (int64, error) {
	if !in.All() || tenant == "" || user == "" {
		return 0, nil
	}
	held, err := one(ctx, r.conn, scanInt, "SELECT bytes + entries * CAST($1 AS BIGINT) FROM context_usage WHERE tenant = $2 AND user_id = $3",
		int64(store.ContextEntryOverhead), tenant, user)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return held, err
}

// ExpiredContext implements store.ContextReader.
func (r *contextReader) ExpiredContext(ctx context.Context, in store.Scope, now time.Time, limit int) ([]store.ContextEntry, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, scanning(contextInto), "SELECT "+contextColumns+` FROM context_blobs c
		WHERE c.expires_at > 0 AND c.expires_at <= $1 ORDER BY c.expires_at, c.context_key LIMIT $2`, millis(now), int64(limit))
}

// InsertContextEntry implements store.ContextTx.
func (t *contextTx) InsertContextEntry(ctx context.Context, e store.ContextEntry) error {
	s := insertContext(e)
	return t.insert(ctx, s.SQL, s.Args...)
}

// insertContext does nothing for a key that is there: a Batch may be written twice.
func insertContext(e store.ContextEntry) Statement {
	return Statement{SQL: `INSERT INTO context_blobs (context_key, tenant, user_id, owner_type, owner_id, session_id, version,
		content_type, size, sha256, metadata, data, blob_id, kid, created_at, updated_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
		ON CONFLICT (context_key) DO NOTHING`, Args: []any{
		e.Key, e.Tenant, e.User, string(e.OwnerType), e.OwnerID, e.SessionID, e.Version, e.ContentType, e.Size, e.SHA256,
		jsonText(e.Metadata), held(e.Data), e.BlobID, e.KID, millis(e.CreatedAt), millis(e.UpdatedAt), millis(e.ExpiresAt),
	}}
}

// held binds the bytes of a row whose content may be elsewhere: the column is never NULL, because its length is summed when
// rows are purged.
func held(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// ReplaceContextEntry implements store.ContextTx. e.Version is the new one, and the row must have the one before it.
func (t *contextTx) ReplaceContextEntry(ctx context.Context, e store.ContextEntry) (bool, error) {
	return t.change(ctx, `UPDATE context_blobs SET version = $2, content_type = $3, size = $4, sha256 = $5, data = $6, blob_id = $7,
		kid = $8, updated_at = $9, expires_at = $10 WHERE context_key = $1 AND version = $11`,
		e.Key, e.Version, e.ContentType, e.Size, e.SHA256, held(e.Data), e.BlobID, e.KID, millis(e.UpdatedAt), millis(e.ExpiresAt), e.Version-1)
}

// DeleteContextEntry implements store.ContextTx. One that got a new version stays, and the move is false.
func (t *contextTx) DeleteContextEntry(ctx context.Context, key string, version int64) (bool, error) {
	return t.change(ctx, "DELETE FROM context_blobs WHERE context_key = $1 AND version = $2", key, version)
}
