package sqldb

import (
	"context"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// Standing delegations: until a time, one user decides what another was asked. Giver and receiver see them.
	delegationReader struct{ *conn }

	// A Delegation is never changed, only revoked: the audit log refers to it.
	delegationTx struct{ *conn }
)

const selectDelegation = `SELECT d.delegation_id, d.tenant, d.user_id, d.delegate, d.wide, d.holds, d.agent_id, d.tool, d.tool_kind,
	d.note, d.created_at, d.expires_at, d.revoked_at, d.revoked_by FROM delegations d`

func scanDelegation(at row) (store.Delegation, error) {
	var d store.Delegation
	err := at.Scan(&d.ID, &d.Tenant, &d.User, &d.To, &d.Wide, &d.Holds, &d.AgentID, &d.Tool, &d.ToolKind,
		&d.Note, timeInto{&d.CreatedAt}, timeInto{&d.ExpiresAt}, timeInto{&d.RevokedAt}, &d.RevokedBy)
	return d, err
}

// Delegation implements store.DelegationReader.
func (r *delegationReader) Delegation(ctx context.Context, in store.Scope, id string) (store.Delegation, error) {
	if blind(in) {
		return store.Delegation{}, store.ErrNotFound
	}
	q := from(selectDelegation).and("d.delegation_id = ", id)
	if !in.All() {
		q.and("d.tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.and("(d.user_id = ", in.User()).raw(" OR d.delegate = ").bind(in.User()).raw(")")
	}
	return one(ctx, r.conn, scanDelegation, q.sql.String(), q.args...)
}

// Delegations implements store.DelegationReader. Ids are UUIDv7, so their order is time. Those that the user gave and
// those that it was given are two queries, each in the order of an index.
func (r *delegationReader) Delegations(ctx context.Context, in store.Scope, page store.Page) ([]store.Delegation, error) {
	if blind(in) {
		return nil, nil
	}
	if in.All() || in.Wide() {
		q := from(selectDelegation).ofList(in, "d.tenant", "")
		return newestFirst(ctx, r.conn, scanDelegation, q, listedBy(in, "d.delegation_id"), page)
	}
	given, err := newestFirst(ctx, r.conn, scanDelegation, from(selectDelegation).ofList(in, "d.tenant", "d.user_id"), listedBy(in, "d.delegation_id"), page)
	if err != nil {
		return nil, err
	}
	q := from(selectDelegation).ofList(in, "d.tenant", "d.delegate").and("COALESCE(d.user_id <> ", in.User()).raw(", FALSE)")
	received, err := newestFirst(ctx, r.conn, scanDelegation, q, listedBy(in, "d.delegation_id"), page)
	if err != nil {
		return nil, err
	}
	return merged(given, received, page, func(a, b store.Delegation) int { return strings.Compare(b.ID, a.ID) }), nil
}

// DelegationsOf implements store.DelegationReader. It has the condition by which Approvals are seen (standing), so
// what a user sees by a Delegation and what the decision names are the same.
func (r *delegationReader) DelegationsOf(ctx context.Context, in store.Scope, approvalID, user string) ([]store.Delegation, error) {
	if !in.All() || user == "" {
		return nil, nil
	}
	q := from(selectDelegation + " JOIN approvals a ON TRUE JOIN sessions s ON s.session_id = a.session_id").raw(" AND s.deleted_at = 0")
	q.and("a.approval_id = ", approvalID).raw(" AND ").standing(user, r.d.now(), r.d)
	q.raw(" ORDER BY d.created_at, d.delegation_id").limit(store.MaxPageLimit) // for the index of those that live
	return list(ctx, r.conn, scanDelegation, q.sql.String(), q.args...)
}

// InsertDelegation implements store.DelegationTx.
func (t *delegationTx) InsertDelegation(ctx context.Context, d store.Delegation) error {
	return t.insert(ctx, `INSERT INTO delegations (delegation_id, tenant, user_id, delegate, wide, holds, agent_id, tool, tool_kind,
		note, created_at, expires_at, revoked_at, revoked_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		d.ID, d.Tenant, d.User, d.To, d.Wide, jsonText(d.Holds), d.AgentID, d.Tool, d.ToolKind, d.Note, millis(d.CreatedAt),
		millis(d.ExpiresAt), millis(d.RevokedAt), d.RevokedBy)
}

// RevokeDelegation implements store.DelegationTx.
func (t *delegationTx) RevokeDelegation(ctx context.Context, in store.Scope, id, by string, at time.Time) (bool, error) {
	return t.revoke(ctx, in, "delegations", "delegation_id", id, by, at)
}
