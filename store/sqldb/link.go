package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Links to decide from a message outside of the chat can be used once: the table holds those that were.
	linkReader struct{ *conn }

	// UseLink and the decision are one transaction, so a link is used exactly when it decided something.
	linkTx struct{ *conn }
)

const selectUsedLink = `SELECT l.link_id, l.approval_id, l.tenant, l.user_id, l.used_at, l.expires_at FROM decision_links l`

func scanUsedLink(at row) (store.UsedLink, error) {
	var l store.UsedLink
	err := at.Scan(&l.ID, &l.ApprovalID, &l.Tenant, &l.User, timeInto{&l.UsedAt}, timeInto{&l.ExpiresAt})
	return l, err
}

// UsedLink implements store.LinkReader.
func (r *linkReader) UsedLink(ctx context.Context, in store.Scope, id string) (store.UsedLink, error) {
	if blind(in) {
		return store.UsedLink{}, store.ErrNotFound
	}
	q := from(selectUsedLink).and("l.link_id = ", id).ofScope(in, "l.tenant", "l.user_id")
	return one(ctx, r.conn, scanUsedLink, q.sql.String(), q.args...)
}

// UseLink implements store.LinkTx. The key decides who comes first.
func (t *linkTx) UseLink(ctx context.Context, l store.UsedLink) (bool, error) {
	return t.change(ctx, `INSERT INTO decision_links (link_id, approval_id, tenant, user_id, used_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (link_id) DO NOTHING`,
		l.ID, l.ApprovalID, l.Tenant, l.User, millis(l.UsedAt), millis(l.ExpiresAt))
}

// ReleaseLink implements store.LinkTx. It is for a link that was used for a decision which was certainly not made.
func (t *linkTx) ReleaseLink(ctx context.Context, id string) error {
	return t.run(ctx, "DELETE FROM decision_links WHERE link_id = $1", id)
}

// DropUsedLinks implements store.LinkTx.
func (t *linkTx) DropUsedLinks(ctx context.Context, before time.Time) error {
	return t.run(ctx, "DELETE FROM decision_links WHERE expires_at < $1", millis(before))
}
