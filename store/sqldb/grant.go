package sqldb

import (
	"context"
	"slices"
	"time"

	"aqueduct/store"
)

const selectGrant = `SELECT g.grant_id, g.tenant, g.user_id, g.agent_id, g.session_id, g.tool, g.kind, g.match, g.template,
	g.created_by, g.created_at, g.expires_at, g.max_uses, g.uses, g.revoked_at, g.revoked_by, g.note FROM grants g`

func scanGrant(at row) (store.Grant, error) {
	var g store.Grant
	err := at.Scan(&g.ID, &g.Tenant, &g.User, &g.AgentID, &g.SessionID, &g.Tool, &g.Kind, &g.Match, &g.Template,
		&g.CreatedBy, timeInto{&g.CreatedAt}, timeInto{&g.ExpiresAt}, &g.MaxUses, &g.Uses, timeInto{&g.RevokedAt},
		&g.RevokedBy, &g.Note)
	return g, err
}

// grants starts a query of what the Scope sees; false when that is nothing.
func grants(in store.Scope) (*query, bool) {
	q := from(selectGrant)
	if !in.All() {
		q.and("g.tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.raw(" AND g.user_id IN (").bind(in.User()).raw(", '')")
	}
	return q, !blind(in)
}

// Grant implements store.GrantReader.
func (r *Reader) Grant(ctx context.Context, in store.Scope, id string) (store.Grant, error) {
	q, sees := grants(in)
	if !sees {
		return store.Grant{}, store.ErrNotFound
	}
	q.and("g.grant_id = ", id)
	return one(ctx, r, scanGrant, q.sql.String(), q.args...)
}

// Grants implements store.GrantReader. Ids are UUIDv7, so their order is time.
func (r *Reader) Grants(ctx context.Context, in store.Scope, page store.Page) ([]store.Grant, error) {
	q, sees := grants(in)
	if !sees {
		return nil, nil
	}
	back := q.newestFirst("g.grant_id", page)
	got, err := list(ctx, r, scanGrant, q.sql.String(), q.args...)
	if back {
		slices.Reverse(got)
	}
	return got, err
}

// unspent is the condition of a Grant that still lets something through, up to the time.
const unspent = "revoked_at = 0 AND (max_uses = 0 OR uses < max_uses) AND (expires_at = 0 OR expires_at > "

// LiveGrants implements store.GrantReader.
func (r *Reader) LiveGrants(ctx context.Context, in store.Scope, tenant, user, agentID, sessionID string, now time.Time) ([]store.Grant, error) {
	q, sees := grants(in)
	if !sees {
		return nil, nil
	}
	q.raw(" AND "+unspent).bind(millis(now)).raw(")").and("g.tenant = ", tenant)
	q.raw(" AND g.user_id IN (").bind(user).raw(", '')")
	q.raw(" AND g.agent_id IN (").bind(agentID).raw(", '')")
	q.raw(" AND g.session_id IN (").bind(sessionID).raw(", '')")
	q.raw(" ORDER BY g.user_id DESC, g.grant_id DESC").limit(store.MaxPageLimit)
	return list(ctx, r, scanGrant, q.sql.String(), q.args...)
}

// InsertGrant implements store.GrantTx.
func (t *Tx) InsertGrant(ctx context.Context, g store.Grant) error {
	return t.insert(ctx, `INSERT INTO grants (grant_id, tenant, user_id, agent_id, session_id, tool, kind, match, template,
		created_by, created_at, expires_at, max_uses, uses, revoked_at, revoked_by, note)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		g.ID, g.Tenant, g.User, g.AgentID, g.SessionID, g.Tool, g.Kind, jsonText(g.Match), g.Template, g.CreatedBy,
		millis(g.CreatedAt), millis(g.ExpiresAt), g.MaxUses, g.Uses, millis(g.RevokedAt), g.RevokedBy, g.Note)
}

// UseGrant implements store.GrantTx.
func (t *Tx) UseGrant(ctx context.Context, id string, now time.Time) (bool, error) {
	n, err := t.exec(ctx, "UPDATE grants SET uses = uses + 1 WHERE grant_id = $1 AND "+unspent+"$2)", id, millis(now))
	return n > 0, err
}

// RevokeGrant implements store.GrantTx.
func (t *Tx) RevokeGrant(ctx context.Context, in store.Scope, id, by string, at time.Time) (bool, error) {
	if blind(in) {
		return false, nil
	}
	q := (&query{}).raw("UPDATE grants SET revoked_at = ").bind(millis(at)).raw(", revoked_by = ").bind(by)
	q.raw(" WHERE revoked_at = 0").and("grant_id = ", id)
	if !in.All() {
		q.and("tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.and("user_id = ", in.User())
	}
	n, err := t.exec(ctx, q.sql.String(), q.args...)
	return n > 0, err
}
