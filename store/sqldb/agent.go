package sqldb

import (
	"context"
	"math/rand/v2"
	"time"

	"aqueduct/store"
)

type (
	// The directory of agents. Unlike tools, an id has one row for all tenants: it is part of addresses.
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

func scanAgentsStamp(at row) (store.AgentsStamp, error) {
	var s store.AgentsStamp
	return s, at.Scan(&s.Count, &s.Revisions)
}

// agentsIn starts a query of the Agents that a Scope sees.
func agentsIn(columns string, in store.Scope) *query {
	q := from(columns)
	if !in.All() {
		q.raw(" AND a.tenant IN (").bind(in.Tenant()).raw(", '')")
	}
	return q
}

// Agent implements store.AgentReader.
func (r *agentReader) Agent(ctx context.Context, in store.Scope, id string) (store.Agent, error) {
	if blind(in) {
		return store.Agent{}, store.ErrNotFound
	}
	q := agentsIn(selectAgent, in).and("a.agent_id = ", id)
	return one(ctx, r.conn, scanAgent, q.sql.String(), q.args...)
}

// Agents implements store.AgentReader.
func (r *agentReader) Agents(ctx context.Context, in store.Scope, page store.Page) ([]store.Agent, error) {
	if blind(in) {
		return nil, nil
	}
	q := agentsIn(selectAgent, in)
	if page.After != "" {
		q.and("a.agent_id > ", page.After)
	}
	if page.Before != "" {
		q.and("a.agent_id < ", page.Before)
	}
	return paged(ctx, r.conn, scanAgent, q, "a.agent_id", "a.agent_id DESC", page)
}

// CountAgents implements store.AgentReader.
func (r *agentReader) CountAgents(ctx context.Context, in store.Scope) (int, error) {
	if blind(in) {
		return 0, nil
	}
	q := from("SELECT COUNT(*) FROM agents a").and("a.source = ", string(store.AgentFromAPI)).ofScope(in, "a.tenant", "a.owner_id")
	n, err := one(ctx, r.conn, scanInt, q.sql.String(), q.args...)
	return int(n), err
}

// AgentsStamp implements store.AgentReader. The count shows what came and went, the sum of the revisions what was
// changed.
func (r *agentReader) AgentsStamp(ctx context.Context, in store.Scope) (store.AgentsStamp, error) {
	if blind(in) {
		return store.AgentsStamp{}, nil
	}
	q := agentsIn("SELECT COUNT(*), CAST(COALESCE(SUM(a.revision), 0) AS BIGINT) FROM agents a", in)
	return one(ctx, r.conn, scanAgentsStamp, q.sql.String(), q.args...)
}

// revision is a random number of which a table's worth can be summed. That two changes between two looks add up to the same
// sum has a chance of one in two thousand millions, and the next change ends it.
func revision() int64 { return rand.Int64N(1 << 31) }

// ClaimAgent implements store.AgentTx. False is an id that has a row already; the caller reads whose it is.
func (t *agentTx) ClaimAgent(ctx context.Context, a store.Agent) (bool, error) {
	return t.change(ctx, `INSERT INTO agents (agent_id, tenant, owner_id, source, protocol, name, endpoint, capabilities,
		auth_kid, auth, last_heartbeat_at, registered_at, updated_at, revision)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (agent_id) DO NOTHING`,
		a.ID, a.Tenant, a.Owner, string(a.Source), a.Protocol, a.Name, a.Endpoint, jsonText(a.Capabilities), a.AuthKID, blob(a.Auth),
		millis(a.LastHeartbeatAt), millis(a.RegisteredAt), millis(a.UpdatedAt), revision())
}

// UpdateAgent implements store.AgentTx. The revision is drawn anew, by which other replicas see that they have to
// read.
func (t *agentTx) UpdateAgent(ctx context.Context, a store.Agent) (bool, error) {
	return t.change(ctx, `UPDATE agents SET tenant = $2, owner_id = $3, source = $4, protocol = $5, name = $6, endpoint = $7,
		capabilities = $8, auth_kid = $9, auth = $10, updated_at = $11, revision = $12 WHERE agent_id = $1`,
		a.ID, a.Tenant, a.Owner, string(a.Source), a.Protocol, a.Name, a.Endpoint, jsonText(a.Capabilities), a.AuthKID, blob(a.Auth),
		millis(a.UpdatedAt), revision())
}

// BeatAgent implements store.AgentTx. The revision stays: a heartbeat is no reason for every replica to read the
// directory.
func (t *agentTx) BeatAgent(ctx context.Context, id string, at time.Time) (bool, error) {
	return t.change(ctx, "UPDATE agents SET last_heartbeat_at = $2 WHERE agent_id = $1", id, millis(at))
}

// DeleteAgent implements store.AgentTx. The source is compared, because a row that was registered may have become one
// of the configuration since it was read.
func (t *agentTx) DeleteAgent(ctx context.Context, id string, source store.AgentSource) (bool, error) {
	return t.change(ctx, "DELETE FROM agents WHERE agent_id = $1 AND source = $2", id, string(source))
}
