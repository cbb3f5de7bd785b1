package acpgateway

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// Registry keeps the acp-proxies and the sandbox instances their agents run in, so that they survive a restart. It reads
// in the System scope, because a proxy has no owner: who shows a row to a caller authorizes that caller first.
type Registry struct{ store store.Store }

// NewRegistry keeps proxies in a store.
func NewRegistry(s store.Store) *Registry { return &Registry{store: s} }

// Audit writes an action on a proxy, or the refusal of one, into the audit log.
func (reg *Registry) Audit(ctx context.Context, who store.Principal, action, proxyID string, details any) error {
	return reg.store.InTx(ctx, func(tx store.Tx) error {
		return audit.Append(ctx, tx, who, action, audit.OfProxy(proxyID), details)
	})
}

// SaveProxy writes a whole row.
func (reg *Registry) SaveProxy(ctx context.Context, p store.Proxy) error {
	return reg.store.InTx(ctx, func(tx store.Tx) error { return tx.UpsertProxy(ctx, p) })
}

// Proxy is one; store.ErrNotFound when it never registered.
func (reg *Registry) Proxy(ctx context.Context, id string) (store.Proxy, error) {
	return reg.store.Proxy(ctx, store.System(), id)
}

// Links are the links of proxies to all replicas that live.
func (reg *Registry) Links(ctx context.Context) ([]store.ProxyLink, error) {
	return reg.store.ProxyLinks(ctx, store.System())
}

// ClaimAgent keeps the id of an agent that a proxy serves, so that it cannot be registered. False where it is.
func (reg *Registry) ClaimAgent(ctx context.Context, id string) (free bool, err error) {
	err = reg.store.InTx(ctx, func(tx store.Tx) (err error) {
		free, err = claimAgent(ctx, tx, id)
		return err
	})
	return free, err
}

func claimAgent(ctx context.Context, tx store.Tx, id string) (bool, error) {
	if bridge.ReservedAgent(id) {
		return false, nil
	}
	// A tenant may have the id without having the row of that key.
	if next, err := tx.Agents(ctx, store.System(), store.Page{After: id, Limit: 1}); err != nil || len(next) > 0 && store.AgentID(next[0].ID) == id {
		return false, err
	}
	now := time.Now()
	first, err := tx.ClaimAgent(ctx, store.Agent{ID: id, Source: store.AgentFromProxy, Protocol: store.AgentACP, RegisteredAt: now, UpdatedAt: now})
	if err != nil || first {
		return first, err
	}
	a, err := tx.Agent(ctx, store.System(), id)
	return a.Source != store.AgentFromAPI, err
}

// releaseAgent gives up the id of an agent that no proxy serves any more.
func releaseAgent(ctx context.Context, tx store.Tx, id string) error {
	proxies, err := tx.Proxies(ctx, store.System())
	if err != nil || slices.ContainsFunc(proxies, func(p store.Proxy) bool { return p.AgentID == id }) {
		return err
	}
	_, err = tx.DeleteAgent(ctx, id, store.AgentFromProxy)
	return err
}

// RemoveProxy forgets one, and the places of its Sessions' agents. store.ErrNotFound when it never registered.
func (reg *Registry) RemoveProxy(ctx context.Context, id string) error {
	return reg.store.InTx(ctx, func(tx store.Tx) error {
		p, err := tx.Proxy(ctx, store.System(), id)
		if err != nil {
			return err
		}
		if _, err := tx.DeleteProxy(ctx, id); err != nil {
			return err
		}
		return releaseAgent(ctx, tx, p.AgentID)
	})
}

// Proxies are all that ever registered, in the order they did so first.
func (reg *Registry) Proxies(ctx context.Context) ([]store.Proxy, error) {
	return reg.store.Proxies(ctx, store.System())
}

// SaveInstance writes a whole row; the CreatedAt of one that is there stays.
func (reg *Registry) SaveInstance(ctx context.Context, i store.SandboxInstance) error {
	return reg.store.InTx(ctx, func(tx store.Tx) error { return tx.UpsertSandboxInstance(ctx, i) })
}

// RevokeTokens forgets the tokens of a proxy's instances that were written before a time.
func (reg *Registry) RevokeTokens(ctx context.Context, proxyID string, before time.Time) error {
	return reg.store.InTx(ctx, func(tx store.Tx) error { return tx.RevokeInstanceTokens(ctx, proxyID, before) })
}

// Instance is a Session's; store.ErrNotFound when it never had one or is deleted.
func (reg *Registry) Instance(ctx context.Context, sessionID string) (store.SandboxInstance, error) {
	return reg.store.SandboxInstance(ctx, store.System(), sessionID)
}

// InstancesOf are those of a proxy, newest Session first; deleted Sessions have none.
func (reg *Registry) InstancesOf(ctx context.Context, proxyID string) ([]store.SandboxInstance, error) {
	var all []store.SandboxInstance
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		got, err := reg.store.SandboxInstancesOf(ctx, store.System(), proxyID, page)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
		if len(got) < page.Size() {
			return all, nil
		}
		page.After = got[len(got)-1].SessionID
	}
}
