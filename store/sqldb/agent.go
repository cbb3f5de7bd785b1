package sqldb

import (
	"context"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// The directory of agents. The id of a row is that of the agent, or store.AgentKey.
	agentReader struct{ *conn }

	// An id is claimed by inserting its row, so of two that want it the key chooses one.
	agentTx struct{ *conn }
)

const selectAgent = `SELECT a.agent_id, a.tenant, a.owner_id, a.source, a.protocol, a.name, a.endpoint, a.capabilities,
	a.auth_kid, a.auth, a.last_heartbeat_at, a.registered_at, a.updated_at FROM agents a`

func scanAgent(at row) (store.Agent, error) {
	var a store.Agent
	err := at.Scan(&a.ID, &a.Tenant, &a.Owner, &a.Source, &a.Protocol, &a.Name, &a.Endpoint, &a.Capabilities,
		&a.AuthKID, &a.Auth, timeInto{&a.LastHeartbeatAt}, timeInto{&a.RegisteredAt}, timeInto{&a.UpdatedAt})
	return a, err
}

// agentsOf starts a query of the Agents of a tenant; "" are those of everybody.
func agentsOf(tenant string) *query { return from(selectAgent).and("a.tenant = ", tenant) }

// Agent implements store.AgentReader.
func (r *agentReader) Agent(ctx context.Context, in store.Scope, id string) (store.Agent, error) {
	if blind(in) {
		return store.Agent{}, store.ErrNotFound
	}
	q := from(selectAgent).and("a.agent_id = ", id)
	if !in.All() {
		q.raw(" AND a.tenant IN (").bind(in.Tenant()).raw(", '')")
	}
	return one(ctx, r.conn, scanAgent, q.sql.String(), q.args...)
}

// Agents implements store.AgentReader. The tenant's own and everybody's are two queries, each in the order of an index.
func (r *agentReader) Agents(ctx context.Context, in store.Scope, page store.Page) ([]store.Agent, error) {
	if blind(in) {
		return nil, nil
	}
	if in.All() {
		return r.agents(ctx, in, from(selectAgent), page)
	}
	own, err := r.agents(ctx, in, agentsOf(in.Tenant()), page)
	if err != nil || in.Tenant() == "" {
		return own, err
	}
	everybodys, err := r.agents(ctx, in, agentsOf(""), page)
	if err != nil {
		return nil, err
	}
	return merged(own, everybodys, page, func(a, b store.Agent) int { return strings.Compare(a.ID, b.ID) }), nil
}

// agents reads a page of a query's Agents, by id.
func (r *agentReader) agents(ctx context.Context, in store.Scope, q *query, page store.Page) ([]store.Agent, error) {
	id := listedBy(in, "a.agent_id")
	return paged(ctx, r.conn, scanAgent, q.within(page, id, " > ", " < "), id, id+" DESC", page)
}

// CountAgents implements store.AgentReader. The source is a constant, for the partial index agents_owner.
func (r *agentReader) CountAgents(ctx context.Context, in store.Scope, most int) (int, error) {
	if blind(in) {
		return 0, nil
	}
	q := from("SELECT 1 FROM agents a").raw(" AND a.source = 'api'").ofScope(in, "a.tenant", "a.owner_id").raw(" AND a.tenant >= ''").limit(most)
	return count(ctx, r.conn, q)
}

// AgentsStamp implements store.AgentReader. Triggers of the table raise it.
func (r *agentReader) AgentsStamp(ctx context.Context, in store.Scope) (store.AgentsStamp, error) {
	if !in.All() {
		return 0, nil
	}
	stamp, err := one(ctx, r.conn, scanInt, "SELECT changes FROM agents_stamp WHERE id = 1")
	return store.AgentsStamp(stamp), err
}

// ClaimAgent implements store.AgentTx. False is an id that has a row already; the caller reads whose it is.
func (t *agentTx) ClaimAgent(ctx context.Context, a store.Agent) (bool, error) {
	return t.change(ctx, `INSERT INTO agents (agent_id, tenant, owner_id, source, protocol, name, endpoint, capabilities,
		auth_kid, auth, last_heartbeat_at, registered_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (agent_id) DO NOTHING`,
		a.ID, a.Tenant, a.Owner, string(a.Source), a.Protocol, a.Name, a.Endpoint, jsonText(a.Capabilities), a.AuthKID, blob(a.Auth),
		millis(a.LastHeartbeatAt), millis(a.RegisteredAt), millis(a.UpdatedAt))
}

// UpdateAgent implements store.AgentTx.
func (t *agentTx) UpdateAgent(ctx context.Context, a store.Agent) (bool, error) {
	return t.change(ctx, `UPDATE agents SET tenant = $2, owner_id = $3, source = $4, protocol = $5, name = $6, endpoint = $7,
		capabilities = $8, auth_kid = $9, auth = $10, updated_at = $11 WHERE agent_id = $1`,
		a.ID, a.Tenant, a.Owner, string(a.Source), a.Protocol, a.Name, a.Endpoint, jsonText(a.Capabilities), a.AuthKID, blob(a.Auth),
		millis(a.UpdatedAt))
}

// BeatAgent implements store.AgentTx. The stamp stays, as updated_at does: a heartbeat is no reason for every replica to
// read the directory.
func (t *agentTx) BeatAgent(ctx context.Context, id string, at time.Time) (bool, error) {
	return t.change(ctx, "UPDATE agents SET last_heartbeat_at = $2 WHERE agent_id = $1", id, millis(at))
}

// DeleteAgent implements store.AgentTx. The source is compared, because a row that was registered may have become one
// of the configuration since it was read.
func (t *agentTx) DeleteAgent(ctx context.Context, id string, source store.AgentSource) (bool, error) {
	return t.change(ctx, "DELETE FROM agents WHERE agent_id = $1 AND source = $2", id, string(source))
}
