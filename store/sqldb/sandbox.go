package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// Instances are the processes that proxies run for Sessions, and what their agents were started with.
	sandboxReader struct{ *conn }

	// Only the hash of an instance's token is kept.
	sandboxTx struct{ *conn }
)

// selectSandbox joins the Session that the instance belongs to. The key of an instance is a Session's id, or, of an
// agent that is addressed in another agent's thread, an id of its own beside of_session.
const selectSandbox = `SELECT i.session_id, i.proxy_id, i.instance_name, i.acp_session_id, i.status, i.provider, i.runtime,
	i.last_seen, i.last_error, i.transport, i.init, i.token_hash, i.created_at, i.updated_at, i.of_session, i.agent_id
	FROM sandbox_instances i JOIN sessions s ON s.session_id = CASE i.of_session WHEN '' THEN i.session_id ELSE i.of_session END`

func scanSandbox(at row) (store.SandboxInstance, error) {
	var i store.SandboxInstance
	err := at.Scan(&i.SessionID, &i.ProxyID, &i.InstanceName, &i.ACPSessionID, &i.Status, &i.Provider, &i.Runtime,
		timeInto{&i.LastSeen}, &i.LastError, &i.Transport, &i.Init, &i.TokenHash, timeInto{&i.CreatedAt}, timeInto{&i.UpdatedAt},
		&i.OfSession, &i.AgentID)
	return i, err
}

// SandboxInstance implements store.ProxyReader.
func (r *sandboxReader) SandboxInstance(ctx context.Context, in store.Scope, sessionID string) (store.SandboxInstance, error) {
	q := selecting(selectSandbox, in).and("i.session_id = ", sessionID)
	return one(ctx, r.conn, scanSandbox, q.sql.String(), q.args...)
}

// SandboxInstancesOf implements store.ProxyReader. Ids are UUIDv7, so their order is time.
func (r *sandboxReader) SandboxInstancesOf(ctx context.Context, in store.Scope, proxyID string, page store.Page) ([]store.SandboxInstance, error) {
	q := selecting(selectSandbox, in).and("i.proxy_id = ", proxyID)
	return newestFirst(ctx, r.conn, scanSandbox, q, "i.session_id", page)
}

// UpsertSandboxInstance implements store.ProxyTx.
func (t *sandboxTx) UpsertSandboxInstance(ctx context.Context, i store.SandboxInstance) error {
	return t.insert(ctx, `INSERT INTO sandbox_instances (session_id, proxy_id, instance_name, acp_session_id, status,
		provider, runtime, last_seen, last_error, transport, init, token_hash, created_at, updated_at, of_session, agent_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		ON CONFLICT (session_id) DO UPDATE SET proxy_id = excluded.proxy_id, instance_name = excluded.instance_name,
		acp_session_id = excluded.acp_session_id, status = excluded.status, provider = excluded.provider,
		runtime = excluded.runtime, last_seen = excluded.last_seen, last_error = excluded.last_error,
		transport = excluded.transport, init = excluded.init, token_hash = excluded.token_hash,
		updated_at = excluded.updated_at`,
		i.SessionID, i.ProxyID, i.InstanceName, i.ACPSessionID, i.Status, i.Provider, i.Runtime, millis(i.LastSeen),
		i.LastError, jsonText(i.Transport), jsonText(i.Init), blob(i.TokenHash),
		millis(i.CreatedAt), millis(i.UpdatedAt), i.OfSession, i.AgentID)
}

// RevokeInstanceTokens implements store.ProxyTx. An instance that was written since keeps its token, which may be a
// newer one.
func (t *sandboxTx) RevokeInstanceTokens(ctx context.Context, proxyID string, before time.Time) error {
	return t.run(ctx, "UPDATE sandbox_instances SET token_hash = NULL WHERE proxy_id = $1 AND token_hash IS NOT NULL AND updated_at < $2",
		proxyID, millis(before))
}
