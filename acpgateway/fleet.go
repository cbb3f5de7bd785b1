package acpgateway

import (
	"context"
	"slices"
	"sync"

	"aqueduct/store"
)

// fleet is what this replica knows of: the Agents that proxies serve, the proxies, and the channels of Sessions to them.
// Any goroutine may use it.
//
// The Directory that the engine asks for agents is changed here only, under mu, so that it and the map of Agents
// agree.
type fleet struct {
	cfg        *Config
	newAgent   func(id string) *Agent
	newProxy   func(id string) *proxy
	newChannel func(p *proxy, row store.SandboxInstance) *channel

	reserving sync.Mutex // while a proxy's slots are given out: two Sessions must not get the last one

	mu       sync.Mutex
	agents   map[string]*Agent
	proxies  map[string]*proxy
	channels map[string]*channel
	// elsewhere are the proxies that are linked to other replicas, by id.
	elsewhere map[string]store.ProxyLink
}

// agent finds an Agent or makes it and puts it into the Directory. It is nil when the id
// belongs to an Agent of another sort.
func (f *fleet) agent(id string) *Agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.agents[id]; a != nil {
		return a
	}
	a := f.newAgent(id)
	if !f.cfg.Directory.AddNew(id, a) {
		return nil
	}
	f.agents[id] = a
	return a
}

func (f *fleet) proxy(id string) *proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.proxies[id]
	if p == nil {
		p = f.newProxy(id)
		f.proxies[id] = p
	}
	return p
}

func (f *fleet) knownProxy(id string) *proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proxies[id]
}

func (f *fleet) allProxies() []*proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*proxy, 0, len(f.proxies))
	for _, p := range f.proxies {
		all = append(all, p)
	}
	return all
}

func (f *fleet) allChannels() []*channel {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*channel, 0, len(f.channels))
	for _, c := range f.channels {
		all = append(all, c)
	}
	return all
}

// known finds a Session's channel in memory.
func (f *fleet) known(sessionID string) *channel {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.channels[sessionID]
}

// channel finds a Session's channel, or the proxy it was bound to before a restart.
// store.ErrNotFound when it never had one.
func (f *fleet) channel(ctx context.Context, sessionID string) (*channel, error) {
	if c := f.known(sessionID); c != nil {
		return c, nil
	}
	row, err := f.cfg.Registry.Instance(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	return f.bind(row, f.proxy(row.ProxyID)), nil
}

// bind makes the channel of a Session to a proxy, unless it has one.
// Two goroutines may find the row at the same time, a frame's and a prompt's; they get the same channel.
func (f *fleet) bind(row store.SandboxInstance, p *proxy) *channel {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.channels[row.SessionID]
	if c == nil {
		c = f.newChannel(p, row)
		f.channels[row.SessionID] = c
	}
	return c
}

// drop forgets a channel that nothing waits in.
// The comparison matters: by now the Session may have a new channel.
func (f *fleet) drop(c *channel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.channels[c.id] == c {
		delete(f.channels, c.id)
	}
}

// remove forgets a proxy that has retired, its channels, and its Agent if that is another's no more.
func (f *fleet) remove(p *proxy) {
	f.mu.Lock()
	delete(f.proxies, p.id)
	for id, c := range f.channels {
		if c.p == p {
			delete(f.channels, id)
		}
	}
	f.mu.Unlock()
	f.releaseAgent(p.agentID())
}

// releaseAgent takes an Agent out of the Directory that neither a proxy nor the settings name any more.
func (f *fleet) releaseAgent(id string) {
	_, configured := f.cfg.Agents[id]
	if configured || slices.Contains(f.cfg.Order, id) || slices.ContainsFunc(f.allProxies(), func(p *proxy) bool { return p.agentID() == id }) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.agents[id] == nil {
		return // an Agent of another sort has that id
	}
	delete(f.agents, id)
	f.cfg.Directory.Remove(id)
}
