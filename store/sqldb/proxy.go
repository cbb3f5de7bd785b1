package sqldb

import (
	"context"
	"time"

	"aqueduct/store"
)

const selectProxy = `SELECT proxy_id, name, agent_id, capabilities, max_concurrent, status, registered_at, connected_at,
	last_seen, last_error, sandboxes, workspaces FROM proxies`

func scanProxy(at row) (store.Proxy, error) {
	var p store.Proxy
	err := at.Scan(&p.ID, &p.Name, &p.AgentID, &p.Capabilities, &p.MaxConcurrent, &p.Status, timeInto{&p.RegisteredAt},
		timeInto{&p.ConnectedAt}, timeInto{&p.LastSeen}, &p.LastError, &p.Sandboxes, &p.Workspaces)
	return p, err
}

// Proxy implements store.ProxyReader.
func (r *Reader) Proxy(ctx context.Context, in store.Scope, id string) (store.Proxy, error) {
	if !in.All() {
		return store.Proxy{}, store.ErrNotFound
	}
	return one(ctx, r, scanProxy, selectProxy+" WHERE proxy_id = $1", id)
}

// Proxies implements store.ProxyReader.
func (r *Reader) Proxies(ctx context.Context, in store.Scope) ([]store.Proxy, error) {
	if !in.All() {
		return nil, nil
	}
	return list(ctx, r, scanProxy, selectProxy+" ORDER BY registered_at, proxy_id")
}

// UpsertProxy implements store.ProxyTx.
func (t *Tx) UpsertProxy(ctx context.Context, p store.Proxy) error {
	return t.insert(ctx, `INSERT INTO proxies (proxy_id, name, agent_id, capabilities, max_concurrent, status,
		registered_at, connected_at, last_seen, last_error, sandboxes, workspaces)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (proxy_id) DO UPDATE SET name = excluded.name, agent_id = excluded.agent_id,
		capabilities = excluded.capabilities, max_concurrent = excluded.max_concurrent, status = excluded.status,
		connected_at = excluded.connected_at, last_seen = excluded.last_seen, last_error = excluded.last_error,
		sandboxes = excluded.sandboxes, workspaces = excluded.workspaces`,
		p.ID, p.Name, p.AgentID, jsonText(p.Capabilities), int64(p.MaxConcurrent), string(p.Status),
		millis(p.RegisteredAt), millis(p.ConnectedAt), millis(p.LastSeen), p.LastError, jsonText(p.Sandboxes), jsonText(p.Workspaces))
}

// InsertProxy implements store.ProxyTx.
func (t *Tx) InsertProxy(ctx context.Context, p store.Proxy) (bool, error) {
	n, err := t.exec(ctx, `INSERT INTO proxies (proxy_id, name, agent_id, capabilities, max_concurrent, status,
		registered_at, connected_at, last_seen, last_error, sandboxes, workspaces)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (proxy_id) DO NOTHING`,
		p.ID, p.Name, p.AgentID, jsonText(p.Capabilities), int64(p.MaxConcurrent), string(p.Status),
		millis(p.RegisteredAt), millis(p.ConnectedAt), millis(p.LastSeen), p.LastError, jsonText(p.Sandboxes), jsonText(p.Workspaces))
	return n > 0, err
}

// UseBootstrap implements store.ProxyTx. The key decides who comes first.
func (t *Tx) UseBootstrap(ctx context.Context, u store.BootstrapUse) (bool, error) {
	n, err := t.exec(ctx, `INSERT INTO bootstrap_uses (token_id, proxy_id, used_at, expires_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT (token_id) DO NOTHING`, u.TokenID, u.ProxyID, millis(u.UsedAt), millis(u.ExpiresAt))
	return n > 0, err
}

// DropBootstrapUses implements store.ProxyTx.
func (t *Tx) DropBootstrapUses(ctx context.Context, before time.Time) error {
	_, err := t.exec(ctx, "DELETE FROM bootstrap_uses WHERE expires_at < $1", millis(before))
	return err
}

// DeleteProxy implements store.ProxyTx.
func (t *Tx) DeleteProxy(ctx context.Context, id string) (bool, error) {
	if _, err := t.exec(ctx, "DELETE FROM sandbox_instances WHERE proxy_id = $1", id); err != nil {
		return false, err
	}
	n, err := t.exec(ctx, "DELETE FROM proxies WHERE proxy_id = $1", id)
	return n > 0, err
}
