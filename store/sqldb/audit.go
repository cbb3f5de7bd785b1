package sqldb

import (
	"context"
	"errors"

	"aqueduct/store"
)

type (
	// Reads of the audit log. A user sees what the user did, an admin the tenant, and the chain's head only the
	// system.
	auditReader struct{ *conn }

	// Appends to the audit log, whose entries are chained by their hashes: one writer at a time, hence LockAudit.
	auditTx struct{ *conn }
)

const selectAudit = `SELECT e.seq, e.tenant, e.ts, e.actor, e.action, e.subject_type, e.subject_id, e.payload, e.remote, e.prev_hash,
	e.hash, e.mac FROM audit e`

func scanAudit(at row) (store.AuditEntry, error) {
	var e store.AuditEntry
	err := at.Scan(&e.Seq, &e.Tenant, timeInto{&e.TS}, &e.Actor, &e.Action, &e.SubjectType, &e.SubjectID, &e.Payload,
		&e.Remote, &e.PrevHash, &e.Hash, &e.MAC)
	return e, err
}

// Audit implements store.AuditReader.
func (r *auditReader) Audit(ctx context.Context, in store.Scope, afterSeq int64, limit int) ([]store.AuditEntry, error) {
	if blind(in) {
		return nil, nil
	}
	seq := "e.seq"
	if !in.All() {
		seq = "(e.seq + 0)" // as listedBy
	}
	q := from(selectAudit).and(seq+" > ", afterSeq).ofList(in, "e.tenant", "e.actor")
	q.raw(" ORDER BY " + seq).limit(store.Page{Limit: limit}.Size())
	return list(ctx, r.conn, scanAudit, q.sql.String(), q.args...)
}

// AuditHead implements store.AuditReader.
func (r *auditReader) AuditHead(ctx context.Context, in store.Scope) (store.AuditEntry, error) {
	if !in.All() {
		return store.AuditEntry{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanAudit, selectAudit+" WHERE e.seq > 0 ORDER BY e.seq DESC LIMIT 1")
}

// AuditKeyBegun implements store.AuditReader. It is the entry from which on entries must have MACs of that key.
func (r *auditReader) AuditKeyBegun(ctx context.Context, in store.Scope, keyID string) (store.AuditEntry, error) {
	if !in.All() {
		return store.AuditEntry{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanAudit, selectAudit+" WHERE e.subject_type = '"+store.SubjectAuditKey+"' AND e.subject_id = $1 ORDER BY e.seq LIMIT 1", keyID)
}

// PolicyChanged implements store.AuditReader.
func (r *auditReader) PolicyChanged(ctx context.Context, in store.Scope) (store.AuditEntry, error) {
	if !in.All() {
		return store.AuditEntry{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanAudit, selectAudit+" WHERE e.subject_type = '"+store.SubjectPolicy+"' ORDER BY e.seq DESC LIMIT 1")
}

// AppendAudit implements store.AuditTx. The hash is of what will be read back: times in milliseconds, texts as both
// databases keep them. The lock comes before the head is read and is held until the commit: of two that read
// the same head, the second would fail by the entry's key, with all that its transaction is about.
func (t *auditTx) AppendAudit(ctx context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	if t.d.LockAudit != "" {
		if _, err := t.exec(ctx, t.d.LockAudit); err != nil {
			return e, err
		}
	}
	last, err := (&auditReader{t.conn}).AuditHead(ctx, store.System())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return e, err
	}
	e = asKept(e)
	e.Seq, e.PrevHash = last.Seq+1, last.Hash
	e.Hash = e.Sum()
	e.MAC = t.d.AuditKey.MAC(e.Hash)
	return e, t.insert(ctx, `INSERT INTO audit (seq, tenant, ts, actor, action, subject_type, subject_id, payload, remote, prev_hash,
		hash, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		e.Seq, e.Tenant, millis(e.TS), e.Actor, e.Action, e.SubjectType, e.SubjectID, jsonText(e.Payload), e.Remote, e.PrevHash, e.Hash, e.MAC)
}

// asKept is the entry as a read of its row will give it.
func asKept(e store.AuditEntry) store.AuditEntry {
	for _, s := range []*string{&e.Tenant, &e.Actor, &e.Action, &e.SubjectType, &e.SubjectID, &e.Remote} {
		*s = Text(*s)
	}
	if e.Payload = []byte(Text(string(e.Payload))); len(e.Payload) == 0 {
		e.Payload = nil
	}
	e.TS = fromMillis(millis(e.TS))
	return e
}
