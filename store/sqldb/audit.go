package sqldb

import (
	"context"
	"errors"
	"time"

	"aqueduct/store"
)

const selectAudit = `SELECT e.seq, e.tenant, e.ts, e.actor, e.action, e.subject_type, e.subject_id, e.payload, e.prev_hash,
	e.hash FROM audit e`

func scanAudit(at row) (store.AuditEntry, error) {
	var e store.AuditEntry
	err := at.Scan(&e.Seq, &e.Tenant, timeInto{&e.TS}, &e.Actor, &e.Action, &e.SubjectType, &e.SubjectID, &e.Payload,
		&e.PrevHash, &e.Hash)
	return e, err
}

// Audit implements store.AuditReader.
func (r *Reader) Audit(ctx context.Context, in store.Scope, afterSeq int64, limit int) ([]store.AuditEntry, error) {
	if blind(in) {
		return nil, nil
	}
	q := from(selectAudit).and("e.seq > ", afterSeq)
	if !in.All() {
		q.and("e.tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.and("e.actor = ", in.User())
	}
	q.raw(" ORDER BY e.seq").limit(store.Page{Limit: limit}.Size())
	return list(ctx, r, scanAudit, q.sql.String(), q.args...)
}

// AppendAudit implements store.AuditTx. The hash is of what will be read back: times in
// milliseconds, texts as both databases keep them.
func (t *Tx) AppendAudit(ctx context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	if t.d.LockAudit != "" {
		if _, err := t.exec(ctx, t.d.LockAudit); err != nil {
			return e, err
		}
	}
	last, err := one(ctx, t.Reader, scanAudit, selectAudit+" ORDER BY e.seq DESC LIMIT 1")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return e, err
	}
	e = asKept(e)
	e.Seq, e.PrevHash = last.Seq+1, last.Hash
	e.Hash = e.Sum()
	return e, t.insert(ctx, `INSERT INTO audit (seq, tenant, ts, actor, action, subject_type, subject_id, payload, prev_hash,
		hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		e.Seq, e.Tenant, millis(e.TS), e.Actor, e.Action, e.SubjectType, e.SubjectID, jsonText(e.Payload), e.PrevHash, e.Hash)
}

func asKept(e store.AuditEntry) store.AuditEntry {
	for _, s := range []*string{&e.Tenant, &e.Actor, &e.Action, &e.SubjectType, &e.SubjectID} {
		*s = Text(*s)
	}
	if e.Payload = []byte(Text(string(e.Payload))); len(e.Payload) == 0 {
		e.Payload = nil
	}
	ms := millis(e.TS)
	e.TS = time.Time{}
	if ms != 0 {
		e.TS = time.UnixMilli(ms).UTC()
	}
	return e
}
