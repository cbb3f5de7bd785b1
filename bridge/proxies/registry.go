// Package proxies keeps what is known of acp-proxies and of the places their agents run
// in, so that it survives a restart.
package proxies

import (
	"context"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/store"
)

// Registry is that memory. It sees with the system's eyes: proxies belong to nobody, so
// whoever shows them to a caller asks first whether he may.
type Registry struct{ store store.Store }

// New keeps proxies in a store.
func New(s store.Store) *Registry { return &Registry{store: s} }

// Audit keeps what somebody did to a proxy, or tried to.
func (r *Registry) Audit(ctx context.Context, who store.Principal, action, proxyID string, details any) error {
	return r.store.InTx(ctx, func(tx store.Tx) error {
		return audit.Append(ctx, tx, who, action, audit.OfProxy(proxyID), details)
	})
}

// SaveProxy writes a whole row.
func (r *Registry) SaveProxy(ctx context.Context, p store.Proxy) error {
	return r.store.InTx(ctx, func(tx store.Tx) error { return tx.UpsertProxy(ctx, p) })
}

// Proxy is one; store.ErrNotFound when it never registered.
func (r *Registry) Proxy(ctx context.Context, id string) (store.Proxy, error) {
	return r.store.Proxy(ctx, store.System(), id)
}

// RemoveProxy forgets one, and the places of its Sessions' agents. store.ErrNotFound when it never registered.
func (r *Registry) RemoveProxy(ctx context.Context, id string) error {
	return r.store.InTx(ctx, func(tx store.Tx) error {
		found, err := tx.DeleteProxy(ctx, id)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
}

// Proxies are all that ever registered, in the order they did so first.
func (r *Registry) Proxies(ctx context.Context) ([]store.Proxy, error) {
	return r.store.Proxies(ctx, store.System())
}

// SaveInstance writes a whole row; the CreatedAt of one that is there stays.
func (r *Registry) SaveInstance(ctx context.Context, i store.SandboxInstance) error {
	return r.store.InTx(ctx, func(tx store.Tx) error { return tx.UpsertSandboxInstance(ctx, i) })
}

// RevokeTokens forgets the tokens of a proxy's instances that were written before a time.
func (r *Registry) RevokeTokens(ctx context.Context, proxyID string, before time.Time) error {
	return r.store.InTx(ctx, func(tx store.Tx) error { return tx.RevokeInstanceTokens(ctx, proxyID, before) })
}

// Instance is a Session's; store.ErrNotFound when it never had one or is deleted.
func (r *Registry) Instance(ctx context.Context, sessionID string) (store.SandboxInstance, error) {
	return r.store.SandboxInstance(ctx, store.System(), sessionID)
}

// InstancesOf are those of a proxy, newest Session first; deleted Sessions have none.
func (r *Registry) InstancesOf(ctx context.Context, proxyID string) ([]store.SandboxInstance, error) {
	var all []store.SandboxInstance
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		got, err := r.store.SandboxInstancesOf(ctx, store.System(), proxyID, page)
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
