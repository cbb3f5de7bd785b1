package sqldb

import (
	"context"

	"aqueduct/store"
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
	for i, name := range names {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(name)
	}
	return q.raw(")")
}

// Shares implements store.ShareReader.
func (r *Reader) Shares(ctx context.Context, in store.Scope, sessionID string) ([]store.Share, error) {
	if blind(in) {
		return nil, nil
	}
	q := selecting(selectShare, in).and("h.session_id = ", sessionID).raw(" ORDER BY h.share_id")
	return list(ctx, r, scanShare, q.sql.String(), q.args...)
}

// Access implements store.ShareReader. Several Shares may reach one person, by name and by roles: their rights add up.
// Of several Sessions with a Run of the client's name the newest is meant.
func (r *Reader) Access(ctx context.Context, who store.Principal, by store.AccessBy) (store.Access, error) {
	var none store.Access
	if who.Tenant == "" || who.User == "" {
		return none, store.ErrNotFound
	}
	q := from(selectAccess).raw(living).and("s.tenant = ", who.Tenant).and("s.user_id <> ", who.User).raw(" AND ")
	q.sharedWith(who.Tenant, store.DeciderNames(who))
	switch {
	case by.SessionID != "":
		q.and("h.session_id = ", by.SessionID)
	case by.RunID != "":
		q.raw(" AND h.session_id IN (SELECT r.session_id FROM runs r WHERE r.run_id = ").bind(by.RunID)
		q.raw(" UNION SELECT x.session_id FROM runs x WHERE x.session_id = h.session_id").and("x.external_id = ", by.RunID).raw(")")
	case by.ToolCallID != "":
		q.and("h.session_id = (SELECT c.session_id FROM tool_calls c WHERE c.tool_call_id = ", by.ToolCallID).raw(")")
	default:
		return none, store.ErrNotFound
	}
	all, err := list(ctx, r, scanAccess, q.raw(" ORDER BY h.session_id DESC").sql.String(), q.args...)
	if err != nil || len(all) == 0 {
		return none, orNotFound(err)
	}
	found := all[0]
	for _, a := range all[1:] {
		if a.Session.ID == found.Session.ID {
			found.Write, found.Decide = found.Write || a.Write, found.Decide || a.Decide
		}
	}
	return found, nil
}

func orNotFound(err error) error {
	if err == nil {
		return store.ErrNotFound
	}
	return err
}

// PutShare implements store.ShareTx.
func (t *Tx) PutShare(ctx context.Context, h store.Share) error {
	_, err := t.exec(ctx, `INSERT INTO shares (share_id, session_id, tenant, principal, may_write, may_decide, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (session_id, principal) DO UPDATE SET may_write = EXCLUDED.may_write, may_decide = EXCLUDED.may_decide`,
		h.ID, h.SessionID, h.Tenant, h.To, h.Write, h.Decide, h.CreatedBy, millis(h.CreatedAt))
	return err
}

// DeleteShare implements store.ShareTx.
func (t *Tx) DeleteShare(ctx context.Context, sessionID, id string) (bool, error) {
	n, err := t.exec(ctx, "DELETE FROM shares WHERE share_id = $1 AND session_id = $2", id, sessionID)
	return n > 0, err
}
