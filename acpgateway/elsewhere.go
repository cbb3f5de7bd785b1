package acpgateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/store"
)

// A proxy is linked to one replica, and its row names that replica. This file follows the links that other replicas hold. The
// agents of such proxies exist here too. A Turn of such an agent is driven at the replica that holds the link (bridge.Locator).
//
// When a proxy moves, this replica discards all that it has of it in memory, above all the numbers of its frames. They would be
// wrong when the proxy comes back.

const (
	// followEvery is how often the links of the other replicas are read.
	followEvery = time.Second
	// linkWait is how long a prompt waits for a proxy that was linked a moment ago, or is started with this server.
	linkWait = 10 * time.Second
)

// follow reads the links of the other replicas until ctx ends.
func (g *Gateway) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := g.lookElsewhere(ctx); err != nil && ctx.Err() == nil {
			g.log.Warn("the proxies of other replicas could not be read", slog.Any("error", err))
		}
	}
}

// lookElsewhere reads the links of the other replicas, and adds their proxies to the fleet.
//
// There are three cases of a proxy that has a link there:
//  1. It was never linked here. It is read once, so that its agent is in the Directory.
//  2. It was linked here and has moved. Its state in memory is discarded before it is read again.
//  3. Its old link here has not ended yet. It is left until that link has ended.
func (g *Gateway) lookElsewhere(ctx context.Context) error {
	links, err := g.cfg.Registry.Links(ctx)
	if err != nil {
		return err
	}
	at := make(map[string]store.ProxyLink, len(links))
	for _, l := range links {
		if l.Replica == g.cfg.Replica {
			continue
		}
		at[l.ProxyID] = l
		p := g.fleet.knownProxy(l.ProxyID)
		if p != nil && p.agentID() == l.AgentID && !wasHere(p) || p != nil && !g.fleet.leave(p) {
			continue
		}
		row, err := g.cfg.Registry.Proxy(ctx, l.ProxyID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		g.learn(row)
	}
	for _, id := range g.fleet.setElsewhere(at) {
		expect(g.fleet.proxy(id), time.Now().Add(linkWait))
	}
	return nil
}

// learn adds a proxy and its agent to the fleet, from the proxy's row. The epoch of the proxy's last start comes from the
// capabilities in the row. So a prompt of an earlier start is not taken for one of a later start.
func (g *Gateway) learn(row store.Proxy) *proxy {
	g.fleet.agent(row.AgentID)
	p := g.fleet.proxy(row.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil {
		return p
	}
	p.row = row
	p.before = wire.ProxyInfo{Capabilities: row.Capabilities}.Offers().Epoch
	p.row.Status = store.ProxyOffline
	p.folder, p.folders = folderOf(row.Capabilities), foldersIn(row.Workspaces)
	return p
}

// Locate implements bridge.Locator. A Session stays with its proxy, where its workspace is, also while another proxy of the
// same agent is linked here. The rows are read only where no link is here, so a replica alone reads none.
func (a *Agent) Locate(ctx context.Context, instanceID string) (replica string, wait bool, err error) {
	var proxyID string // "" for a Session that has no place yet: it gets one at any proxy of the agent
	if c := a.g.fleet.known(instanceID); c != nil {
		proxyID = c.p.id
	} else {
		row, err := a.g.cfg.Registry.Instance(ctx, instanceID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", false, err
		}
		proxyID = row.ProxyID
	}
	here, awaited := a.linkedHere(proxyID)
	if here {
		return "", false, nil
	}
	links, err := a.g.cfg.Registry.Links(ctx)
	for _, l := range links {
		if l.Replica != a.g.cfg.Replica && (l.ProxyID == proxyID || proxyID == "" && l.AgentID == a.id) {
			return l.Replica, false, nil
		}
	}
	// A link that the last look still saw was lost since: its proxy is expected from the next look on.
	return "", awaited || a.g.fleet.isElsewhere(a.id), err
}

// linkedHere reports whether a proxy of the agent's, "" for any, is linked to this replica, or else is expected.
func (a *Agent) linkedHere(proxyID string) (is, awaited bool) {
	for _, p := range a.g.fleet.allProxies() {
		if p.agentID() != a.id || proxyID != "" && p.id != proxyID {
			continue
		}
		p.mu.Lock()
		is, awaited = is || p.link != nil, awaited || time.Now().Before(p.expected)
		p.mu.Unlock()
	}
	return is, awaited
}

// leave removes a proxy that has moved to another replica from memory. It returns false while the proxy's old link here has not
// ended.
func (f *fleet) leave(p *proxy) bool {
	if !p.retire() {
		return false
	}
	p.mu.Lock()
	p.moved = true
	p.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.proxies[p.id] == p {
		delete(f.proxies, p.id)
	}
	for id, c := range f.channels {
		if c.p == p {
			delete(f.channels, id)
			c.bell.Ring()
		}
	}
	return true
}

// setElsewhere replaces the links of the other replicas, and returns the proxies that have lost theirs.
func (f *fleet) setElsewhere(at map[string]store.ProxyLink) (lost []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.elsewhere {
		if _, still := at[id]; !still {
			lost = append(lost, id)
		}
	}
	f.elsewhere = at
	return lost
}

// isElsewhere reports whether a proxy of an Agent is linked to another replica, as of the last look.
func (f *fleet) isElsewhere(agentID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.elsewhere {
		if l.AgentID == agentID {
			return true
		}
	}
	return false
}

// OnUnknown is bridge.Directory's: it finds an Agent whose proxy has linked to another replica a moment ago.
func (g *Gateway) OnUnknown(ctx context.Context, id string) error {
	links, err := g.cfg.Registry.Links(ctx)
	for _, l := range links {
		if l.AgentID == id {
			g.fleet.agent(id)
		}
	}
	return err
}

// wasHere reports whether the proxy has been linked to this replica.
func wasHere(p *proxy) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link != nil || !p.lost.IsZero()
}

// expect has prompts wait for the proxy's link until a time.
func expect(p *proxy, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = until
}

// hasMoved reports whether the proxy is another replica's.
func hasMoved(p *proxy) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.moved
}

var _ bridge.Locator = (*Agent)(nil)
