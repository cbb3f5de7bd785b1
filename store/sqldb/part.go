package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Parts of messages that are too large for the message's row, by the hash of their bytes.
	partReader struct{ *conn }

	// The same bytes twice in a Session are one row.
	partTx struct{ *conn }
)

const selectPart = `SELECT p.session_id, p.sha256, p.mime_type, p.data, p.blob_id, p.blob_size, p.kid, p.created_at FROM message_parts p
	JOIN sessions s ON s.session_id = p.session_id`

func scanPart(at row) (store.MessagePart, error) {
	var p store.MessagePart
	err := at.Scan(&p.SessionID, &p.SHA256, &p.MimeType, &p.Data, &p.BlobID, &p.BlobSize, &p.KID, timeInto{&p.CreatedAt})
	if len(p.Data) == 0 { // the databases differ in how they give none
		p.Data = nil
	}
	return p, err
}

// MessagePart implements store.PartReader.
func (r *partReader) MessagePart(ctx context.Context, in store.Scope, sessionID, sha256 string) (store.MessagePart, error) {
	q := selecting(selectPart, in).and("p.session_id = ", sessionID).and("p.sha256 = ", sha256)
	return one(ctx, r.conn, scanPart, q.sql.String(), q.args...)
}

// InsertMessagePart implements store.PartTx.
func (t *partTx) InsertMessagePart(ctx context.Context, p store.MessagePart) error {
	s := insertPart(p)
	return t.insert(ctx, s.SQL, s.Args...)
}

// insertPart does nothing where the Session has the bytes already: they are found by their hash.
func insertPart(p store.MessagePart) Statement {
	return Statement{
		SQL: `INSERT INTO message_parts (session_id, sha256, mime_type, data, blob_id, blob_size, kid, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (session_id, sha256) DO NOTHING`,
		Args: []any{p.SessionID, p.SHA256, p.MimeType, held(p.Data), p.BlobID, p.BlobSize, p.KID, millis(p.CreatedAt)},
	}
}

// ReplaceMessageData implements store.PartTx.
func (t *partTx) ReplaceMessageData(ctx context.Context, messageID string, data []byte) error {
	return t.run(ctx, "UPDATE messages SET data = $2 WHERE message_id = $1", messageID, jsonText(data))
}
