package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

type (
	// ACP proxies that have registered or linked. They belong to the deployment, so only the system's Scope sees
	// them.
	proxyReader struct{ *conn }

	// InsertProxy tells a first registration from a repeated one, UpsertProxy does not need to.
	proxyTx struct{ *conn }
)

const selectProxy = `SELECT proxy_id, name, agent_id, capabilities, max_concurrent, status, registered_at, connected_at,
	last_seen, last_error, token_ends, replica, sandboxes, workspaces FROM proxies`

const insertIntoProxies = `INSERT INTO proxies (proxy_id, name, agent_id, capabilities, max_concurrent, status,
	registered_at, connected_at, last_seen, last_error, token_ends, replica, sandboxes, workspaces)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
	ON CONFLICT (proxy_id) DO `

func proxyArgs(p store.Proxy) []any {
	return []any{
		p.ID, p.Name, p.AgentID, jsonText(p.Capabilities), int64(p.MaxConcurrent), string(p.Status), millis(p.RegisteredAt),
		millis(p.ConnectedAt), millis(p.LastSeen), p.LastError, millis(p.TokenEnds), p.Replica, jsonText(p.Sandboxes), jsonText(p.Workspaces),
	}
}

func scanProxy(at row) (store.Proxy, error) {
	var p store.Proxy
	err := at.Scan(&p.ID, &p.Name, &p.AgentID, &p.Capabilities, &p.MaxConcurrent, &p.Status, timeInto{&p.RegisteredAt},
		timeInto{&p.ConnectedAt}, timeInto{&p.LastSeen}, &p.LastError, timeInto{&p.TokenEnds}, &p.Replica, &p.Sandboxes, &p.Workspaces)
	return p, err
}

// Proxy implements store.ProxyReader.
func (r *proxyReader) Proxy(ctx context.Context, in store.Scope, id string) (store.Proxy, error) {
	if !in.All() {
		return store.Proxy{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanProxy, selectProxy+" WHERE proxy_id = $1", id)
}

// Proxies implements store.ProxyReader.
func (r *proxyReader) Proxies(ctx context.Context, in store.Scope) ([]store.Proxy, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, scanProxy, selectProxy+" ORDER BY registered_at, proxy_id")
}

// ProxyLinks implements store.ProxyReader.
func (r *proxyReader) ProxyLinks(ctx context.Context, in store.Scope) ([]store.ProxyLink, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r.conn, scanning(func(l *store.ProxyLink) []any { return []any{&l.ProxyID, &l.AgentID, &l.Replica} }),
		`SELECT p.proxy_id, p.agent_id, p.replica FROM replicas r JOIN proxies p ON p.replica = r.id
		WHERE NOT r.fenced AND p.status = 'online' ORDER BY p.registered_at, p.proxy_id`)
}

// UpsertProxy implements store.ProxyTx.
func (t *proxyTx) UpsertProxy(ctx context.Context, p store.Proxy) error {
	return t.insert(ctx, insertIntoProxies+`UPDATE SET name = excluded.name, agent_id = excluded.agent_id,
		capabilities = excluded.capabilities, max_concurrent = excluded.max_concurrent, status = excluded.status,
		connected_at = excluded.connected_at, last_seen = excluded.last_seen, last_error = excluded.last_error,
		token_ends = excluded.token_ends, replica = excluded.replica, sandboxes = excluded.sandboxes, workspaces = excluded.workspaces
		WHERE excluded.status = 'online' OR proxies.status <> 'online' OR proxies.replica = excluded.replica
			OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = proxies.replica AND NOT r.fenced)`, proxyArgs(p)...)
}

// InsertProxy implements store.ProxyTx.
func (t *proxyTx) InsertProxy(ctx context.Context, p store.Proxy) (bool, error) {
	return t.change(ctx, insertIntoProxies+"NOTHING", proxyArgs(p)...)
}

// BootstrapProxy implements store.ProxyTx.
func (t *proxyTx) BootstrapProxy(ctx context.Context, tokenID string) (string, error) {
	return one(ctx, t.conn, scanString, "SELECT proxy_id FROM bootstrap_uses WHERE token_id = $1", tokenID)
}

// UseBootstrap implements store.ProxyTx. The key decides who comes first.
func (t *proxyTx) UseBootstrap(ctx context.Context, u store.BootstrapUse) (bool, error) {
	return t.change(ctx, `INSERT INTO bootstrap_uses (token_id, proxy_id, used_at, expires_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT (token_id) DO NOTHING`, u.TokenID, u.ProxyID, millis(u.UsedAt), millis(u.ExpiresAt))
}

// DropBootstrapUses implements store.ProxyTx.
func (t *proxyTx) DropBootstrapUses(ctx context.Context, before time.Time) error {
	return t.run(ctx, "DELETE FROM bootstrap_uses WHERE expires_at < $1", millis(before))
}

// DeleteProxy implements store.ProxyTx. Its instances go with it, and with them the hashes of their tokens.
func (t *proxyTx) DeleteProxy(ctx context.Context, id string) (bool, error) {
	if err := t.run(ctx, "DELETE FROM sandbox_instances WHERE proxy_id = $1", id); err != nil {
		return false, err
	}
	return t.change(ctx, "DELETE FROM proxies WHERE proxy_id = $1", id)
}
