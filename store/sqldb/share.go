package sqldb

import (
	"context"

	"aqueduct/store"
)

type (
	// Reads of who else may see, write or decide in a Session.
	shareReader struct{ *conn }

	// A Share is a row for one name, which is a user's or a role's.
	shareTx struct{ *conn }
)

const (
	shareColumns = `h.share_id, h.session_id, h.tenant, h.principal, h.may_write, h.may_decide, h.created_by, h.created_at`
	selectShare  = `SELECT ` + shareColumns + ` FROM shares h JOIN sessions s ON s.session_id = h.session_id`
	selectAccess = `SELECT ` + sessionColumns + `, h.may_write, h.may_decide FROM shares h JOIN sessions s ON s.session_id = h.session_id`
)

func scanShare(at row) (store.Share, error) {
	var h store.Share
	err := at.Scan(&h.ID, &h.SessionID, &h.Tenant, &h.To, &h.Write, &h.Decide, &h.CreatedBy, timeInto{&h.CreatedAt})
	return h, err
}

func scanAccess(at row) (store.Access, error) {
	var a store.Access
	err := at.Scan(append(sessionInto(&a.Session), &a.Write, &a.Decide)...)
	return a, err
}

// sharedWith is the condition of a Share h with one of the names of a tenant.
func (q *query) sharedWith(tenant string, names []string) *query {
	q.raw("h.tenant = ").bind(tenant).raw(" AND h.principal IN (")
	return q.bindAll(names).raw(")")
}

// sharedBy is the condition of a Session of another user of the tenant. As that of seenBy it is one that no index can
// serve, so that a query begins with the Shares.
func (q *query) sharedBy(tenant, user string) *query {
	return q.raw(" AND COALESCE(s.deleted_at = 0").and("s.tenant = ", tenant).and("s.user_id <> ", user).raw(", FALSE)")
}

// Shares implements store.ShareReader.
func (r *shareReader) Shares(ctx context.Context, in store.Scope, sessionID string) ([]store.Share, error) {
	if blind(in) {
		return nil, nil
	}
	q := selecting(selectShare, in).and("h.session_id = ", sessionID).raw(" ORDER BY h.share_id")
	return list(ctx, r.conn, scanShare, q.sql.String(), q.args...)
}

// Access implements store.ShareReader. Several Shares may reach one person, by name and by roles: their rights add up.
// Of several Sessions with a Run of the client's name the newest is meant.
func (r *shareReader) Access(ctx context.Context, who store.Principal, by store.AccessBy) (store.Access, error) {
	var none store.Access
	if who.Tenant == "" || who.User == "" {
		return none, store.ErrNotFound
	}
	q := from(selectAccess).sharedBy(who.Tenant, who.User).raw(" AND ")
	q.sharedWith(who.Tenant, store.DeciderNames(who))
	switch {
	case by.SessionID != "":
		q.and("h.session_id = ", by.SessionID)
	case by.RunID != "":
		q.raw(" AND h.session_id IN (SELECT r.session_id FROM runs r WHERE r.run_id = ").bind(by.RunID)
		q.raw(" UNION SELECT x.session_id FROM runs x WHERE x.external_id = ").bind(by.RunID).raw(")")
	case by.ToolCallID != "":
		q.and("h.session_id = (SELECT c.session_id FROM tool_calls c WHERE c.tool_call_id = ", by.ToolCallID).raw(")")
	default:
		return none, store.ErrNotFound
	}
	all, err := list(ctx, r.conn, scanAccess, q.raw(" ORDER BY h.session_id DESC").sql.String(), q.args...)
	if err == nil && len(all) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return none, err
	}
	found := all[0]
	for _, a := range all[1:] {
		if a.Session.ID == found.Session.ID {
			found.Write, found.Decide = found.Write || a.Write, found.Decide || a.Decide
		}
	}
	return found, nil
}

// PutShare implements store.ShareTx. A second Share with the same name changes the rights of the first, which keeps its
// id.
func (t *shareTx) PutShare(ctx context.Context, h store.Share) error {
	return t.run(ctx, `INSERT INTO shares (share_id, session_id, tenant, principal, may_write, may_decide, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (session_id, principal) DO UPDATE SET may_write = EXCLUDED.may_write, may_decide = EXCLUDED.may_decide`,
		h.ID, h.SessionID, h.Tenant, h.To, h.Write, h.Decide, h.CreatedBy, millis(h.CreatedAt))
}

// DeleteShare implements store.ShareTx. The Session is compared: an id of a Share alone opens no other thread's.
func (t *shareTx) DeleteShare(ctx context.Context, sessionID, id string) (bool, error) {
	return t.change(ctx, "DELETE FROM shares WHERE share_id = $1 AND session_id = $2", id, sessionID)
}
