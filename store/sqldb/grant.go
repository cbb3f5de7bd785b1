package sqldb

import (
	"context"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// Grants are standing answers ("always allow"). Those without a user hold for the whole tenant.
	grantReader struct{ *conn }

	// UseGrant counts a use where that is limited; of two requests for the last use one gets it.
	grantTx struct{ *conn }
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
func (r *grantReader) Grant(ctx context.Context, in store.Scope, id string) (store.Grant, error) {
	q, sees := grants(in)
	if !sees {
		return store.Grant{}, store.ErrNotFound
	}
	q.and("g.grant_id = ", id)
	return one(ctx, r.conn, scanGrant, q.sql.String(), q.args...)
}

// Grants implements store.GrantReader. Ids are UUIDv7, so their order is time. The user's own and the tenant's are two
// queries, each in the order of an index.
func (r *grantReader) Grants(ctx context.Context, in store.Scope, page store.Page) ([]store.Grant, error) {
	if blind(in) {
		return nil, nil
	}
	if in.All() || in.Wide() {
		q := from(selectGrant).ofList(in, "g.tenant", "")
		return newestFirst(ctx, r.conn, scanGrant, q, listedBy(in, "g.grant_id"), page)
	}
	var both [2][]store.Grant
	for i, user := range [...]string{in.User(), ""} {
		q := from(selectGrant).ofList(store.As(store.Principal{Tenant: in.Tenant(), User: user}), "g.tenant", "g.user_id")
		var err error
		if both[i], err = newestFirst(ctx, r.conn, scanGrant, q, listedBy(in, "g.grant_id"), page); err != nil {
			return nil, err
		}
	}
	return merged(both[0], both[1], page, func(a, b store.Grant) int { return strings.Compare(b.ID, a.ID) }), nil
}

// unspent is the condition of a Grant that may still be used after a time. It repeats the condition of the index grants_live
// word for word, and then the last expression of that index. A Grant that never expires does so at the end of time.
const unspent = "revoked_at = 0 AND (max_uses = 0 OR uses < max_uses) AND (CASE expires_at WHEN 0 THEN 9223372036854775807 ELSE expires_at END) > "

// LiveGrants implements store.GrantReader. An empty user, agent or Session in a Grant means any. The user's own come
// before those of the tenant, and newer ones first: in an order that no index has, so that grants_live is used, which the
// dead ones are not in.
func (r *grantReader) LiveGrants(ctx context.Context, in store.Scope, tenant, user, agentID, sessionID string, now time.Time) ([]store.Grant, error) {
	q, sees := grants(in)
	if !sees {
		return nil, nil
	}
	q.raw(" AND "+unspent).bind(millis(now)).and("g.tenant = ", tenant)
	q.raw(" AND g.user_id IN (").bind(user).raw(", '')")
	q.raw(" AND g.agent_id IN (").bind(agentID).raw(", '')")
	q.raw(" AND g.session_id IN (").bind(sessionID).raw(", '')")
	q.raw(" ORDER BY g.user_id DESC, g.created_at DESC, g.grant_id DESC").limit(store.MaxPageLimit)
	return list(ctx, r.conn, scanGrant, q.sql.String(), q.args...)
}

// InsertGrant implements store.GrantTx.
func (t *grantTx) InsertGrant(ctx context.Context, g store.Grant) error {
	return t.insert(ctx, `INSERT INTO grants (grant_id, tenant, user_id, agent_id, session_id, tool, kind, match, template,
		created_by, created_at, expires_at, max_uses, uses, revoked_at, revoked_by, note)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		g.ID, g.Tenant, g.User, g.AgentID, g.SessionID, g.Tool, g.Kind, jsonText(g.Match), g.Template, g.CreatedBy,
		millis(g.CreatedAt), millis(g.ExpiresAt), g.MaxUses, g.Uses, millis(g.RevokedAt), g.RevokedBy, g.Note)
}

// UseGrant implements store.GrantTx. Whether the Grant still holds is asked in the statement that counts the use: it may
// have been revoked, or used up, since LiveGrants listed it.
func (t *grantTx) UseGrant(ctx context.Context, id string, now time.Time) (bool, error) {
	return t.change(ctx, "UPDATE grants SET uses = uses + 1 WHERE grant_id = $1 AND "+unspent+"$2", id, millis(now))
}

// RevokeGrant implements store.GrantTx. The row stays, with who revoked it: decisions on record name it.
func (t *grantTx) RevokeGrant(ctx context.Context, in store.Scope, id, by string, at time.Time) (bool, error) {
	return t.revoke(ctx, in, "grants", "grant_id", id, by, at)
}
