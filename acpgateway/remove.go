package acpgateway

import (
	"context"
	"errors"
	"slices"

	"aqueduct/bridge"
	"aqueduct/store"
)

// Remove implements bridge.Controller. The Sessions that were bound to the proxy get a place at another with their next
// message; where that has begun with nothing of the old one, the agent is told the conversation so far.
func (g *Gateway) Remove(ctx context.Context, proxyID string) error {
	p := g.knownProxy(proxyID)
	if p == nil { // of another replica, if there is one
		row, err := g.cfg.Registry.Proxy(ctx, proxyID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return unknownProxy()
		case err != nil:
			return err
		case row.Status == store.ProxyOnline:
			return connectedProxy()
		}
		return g.forgetProxy(ctx, proxyID)
	}
	if !p.retire() {
		return connectedProxy()
	}
	g.mu.Lock()
	delete(g.proxies, proxyID)
	for id, t := range g.tunnels {
		if t.p == p {
			delete(g.tunnels, id)
		}
	}
	g.mu.Unlock()
	p.mu.Lock()
	agent := p.row.AgentID
	p.mu.Unlock()
	g.releaseAgent(agent)
	return g.forgetProxy(ctx, proxyID)
}

func connectedProxy() error {
	return &bridge.ControlError{Code: bridge.ControlConnected, Message: "The proxy is connected. Stop it first: it would register again."}
}

// forgetProxy removes what is kept of a proxy. The keeper writes no row of it afterwards.
func (g *Gateway) forgetProxy(ctx context.Context, proxyID string) error {
	g.keeper.saving.Lock()
	defer g.keeper.saving.Unlock()
	err := g.cfg.Registry.RemoveProxy(ctx, proxyID)
	if errors.Is(err, store.ErrNotFound) { // it was removed meanwhile
		return unknownProxy()
	}
	return err
}

// releaseAgent takes an Agent out of the Directory that neither a proxy nor the settings name any more.
func (g *Gateway) releaseAgent(id string) {
	_, configured := g.cfg.Agents[id]
	if configured || slices.Contains(g.cfg.Order, id) || slices.ContainsFunc(g.allProxies(), func(p *proxy) bool { return p.serves(id) }) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.agents[id] == nil {
		return // an Agent of another sort has that id
	}
	delete(g.agents, id)
	g.cfg.Directory.Remove(id)
}

// retire makes sure that no link is or becomes the proxy's. False when it has one.
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
