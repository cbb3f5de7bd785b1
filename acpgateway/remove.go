package acpgateway

import (
	"context"
	"errors"

	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Remove implements bridge.Controller. The Sessions that were bound to the proxy get a place at another with their next
// message; an agent that starts there without the old one's session is sent the conversation so far.
func (ct *controls) Remove(ctx context.Context, proxyID string) error {
	p := ct.fleet.knownProxy(proxyID)
	if p == nil { // of another replica, if there is one
		row, err := ct.cfg.Registry.Proxy(ctx, proxyID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return unknownProxy()
		case err != nil:
			return err
		case row.Status == store.ProxyOnline:
			return connectedProxy()
		}
		return ct.forgetProxy(ctx, proxyID)
	}
	if !p.retire() {
		return connectedProxy()
	}
	ct.fleet.remove(p)
	return ct.forgetProxy(ctx, proxyID)
}

func connectedProxy() error {
	return fault.New(bridge.ControlConnected, "The proxy is connected. Stop it first: it would register again.")
}

// forgetProxy removes what is kept of a proxy. The keeper writes no row of it afterwards.
// It holds the keeper's lock over the removal: a save that had read the row before would bring it back.
func (ct *controls) forgetProxy(ctx context.Context, proxyID string) error {
	ct.keeper.saving.Lock()
	defer ct.keeper.saving.Unlock()
	err := ct.cfg.Registry.RemoveProxy(ctx, proxyID)
	if errors.Is(err, store.ErrNotFound) { // it was removed meanwhile
		return unknownProxy()
	}
	return err
}

// retire makes sure that no link is or becomes the proxy's. False when it has one.
// After it, linked refuses every link of this proxy value, so a proxy that registers meanwhile gets a new one.
func (p *proxy) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil {
		p.retired = true
	}
	return p.retired
}

func (p *proxy) isRetired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retired
}
