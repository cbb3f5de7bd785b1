package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Originals of masked texts, encrypted; package redact reads and writes them.
	sealedReader struct{ *conn }

	// A text that is masked anew replaces the original of the same ref.
	sealedTx struct{ *conn }
)

const selectSealed = `SELECT o.ref, o.session_id, o.kid, o.data, o.created_at FROM sealed_originals o
	JOIN sessions s ON s.session_id = o.session_id`

func scanSealed(at row) (o store.Sealed, err error) {
	return o, at.Scan(&o.Ref, &o.SessionID, &o.KID, &o.Data, timeInto{&o.CreatedAt})
}

// Sealed implements store.SealedReader.
func (r *sealedReader) Sealed(ctx context.Context, in store.Scope, ref string) (store.Sealed, error) {
	q := selecting(selectSealed, in).and("o.ref = ", ref)
	return one(ctx, r.conn, scanSealed, q.sql.String(), q.args...)
}

// KeepSealed implements store.SealedTx.
func (t *sealedTx) KeepSealed(ctx context.Context, o store.Sealed) error {
	s := keepSealed(o)
	return t.insert(ctx, s.SQL, s.Args...)
}

// keepSealed writes an original. A ref holds a hash of the masked text, so what is replaced is an original of the
// same text, perhaps under an older key.
func keepSealed(o store.Sealed) Statement {
	return Statement{
		SQL: `INSERT INTO sealed_originals (ref, session_id, kid, data, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (ref) DO UPDATE SET kid = excluded.kid, data = excluded.data`,
		Args: []any{o.Ref, o.SessionID, o.KID, o.Data, millis(o.CreatedAt)},
	}
}
