package acpgateway

import (
	"cmp"
	"slices"
	"time"

	"aqueduct/bridge"
	"aqueduct/store"
)

// A proxy runs so many agents at a time as it says. A Session whose agent runs, or is about
// to, has a seat there; who rests may lose it to who has work.

var errBusy = &bridge.Failure{Code: CodeBusy, Message: "As many agents as its proxies allow are at work. Please try again later."}

// seat gives a Session's tunnel a seat at its proxy.
func (g *Gateway) seat(t *tunnel) error {
	if !t.p.online() {
		return errOffline
	}
	g.seating.Lock()
	defer g.seating.Unlock()
	if !t.isOpen() && !t.busy() && t.p.load() >= t.p.most() && !t.p.makeRoom() {
		return errBusy
	}
	t.sit()
	return nil
}

// seatNew binds a new Session to the least busy proxy of an Agent. Room is made only where
// none has any.
func (g *Gateway) seatNew(agentID string, row store.SandboxInstance) (*tunnel, error) {
	g.seating.Lock()
	defer g.seating.Unlock()
	p, err := g.leastBusy(agentID)
	if err != nil {
		return nil, err
	}
	row.ProxyID = p.id
	t := g.bind(row, p)
	t.sit()
	return t, nil
}

// candidate is a proxy that is there, and how many of its seats are taken.
type candidate struct {
	p    *proxy
	load int
}

func (g *Gateway) leastBusy(agentID string) (*proxy, error) {
	var there []candidate
	for _, p := range g.allProxies() {
		if p.serves(agentID) && p.online() {
			there = append(there, candidate{p, p.load()})
		}
	}
	if len(there) == 0 {
		return nil, errOffline
	}
	slices.SortFunc(there, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.p.id, b.p.id)) })
	for _, c := range there {
		if c.load < c.p.most() {
			return c.p, nil
		}
	}
	for _, c := range there {
		if c.p.makeRoom() {
			return c.p, nil
		}
	}
	return nil, errBusy
}

// sit keeps a seat until the Turn that it is for is attached.
func (t *tunnel) sit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seated = true
}

// release gives up a seat that no Turn will take.
func (t *tunnel) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seated = false
}

// unlimited stands for a proxy that names no bound.
const unlimited = 1 << 30

func (p *proxy) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.row.MaxConcurrent <= 0 {
		return unlimited
	}
	return p.row.MaxConcurrent
}

// load is how many of the proxy's seats are taken.
func (p *proxy) load() int {
	n := 0
	for _, t := range p.g.allTunnels() {
		if t.p == p && (t.isOpen() || t.busy()) {
			n++
		}
	}
	return n
}

// makeRoom closes the agent of the Session that has rested longest.
func (p *proxy) makeRoom() bool {
	var oldest *tunnel
	var since time.Time
	for _, t := range p.g.allTunnels() {
		if t.p != p || t.busy() || !t.isOpen() {
			continue
		}
		if used := t.lastUsed(); oldest == nil || used.Before(since) {
			oldest, since = t, used
		}
	}
	if oldest != nil {
		oldest.close()
	}
	return oldest != nil
}
