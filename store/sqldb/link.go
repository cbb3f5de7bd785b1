package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

const selectUsedLink = `SELECT l.link_id, l.approval_id, l.tenant, l.user_id, l.used_at, l.expires_at FROM decision_links l`

func scanUsedLink(at row) (store.UsedLink, error) {
	var l store.UsedLink
	err := at.Scan(&l.ID, &l.ApprovalID, &l.Tenant, &l.User, timeInto{&l.UsedAt}, timeInto{&l.ExpiresAt})
	return l, err
}

// UsedLink implements store.LinkReader.
func (r *Reader) UsedLink(ctx context.Context, in store.Scope, id string) (store.UsedLink, error) {
	if blind(in) {
		return store.UsedLink{}, store.ErrNotFound
	}
	q := from(selectUsedLink).and("l.link_id = ", id)
	if !in.All() {
		q.and("l.tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.and("l.user_id = ", in.User())
	}
	return one(ctx, r, scanUsedLink, q.sql.String(), q.args...)
}

// UseLink implements store.LinkTx. The key decides who comes first.
func (t *Tx) UseLink(ctx context.Context, l store.UsedLink) (bool, error) {
	n, err := t.exec(ctx, `INSERT INTO decision_links (link_id, approval_id, tenant, user_id, used_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (link_id) DO NOTHING`,
		l.ID, l.ApprovalID, l.Tenant, l.User, millis(l.UsedAt), millis(l.ExpiresAt))
	return n > 0, err
}

// ReleaseLink implements store.LinkTx.
func (t *Tx) ReleaseLink(ctx context.Context, id string) error {
	_, err := t.exec(ctx, "DELETE FROM decision_links WHERE link_id = $1", id)
	return err
}

// DropUsedLinks implements store.LinkTx.
func (t *Tx) DropUsedLinks(ctx context.Context, before time.Time) error {
	_, err := t.exec(ctx, "DELETE FROM decision_links WHERE expires_at < $1", millis(before))
	return err
}
