package acpgateway

import (
	"cmp"
	"slices"
	"time"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// A proxy announces how many agents it runs at a time. A Session whose agent runs, or is about to, has one of these slots.
// A resting Session loses its slot to one that has a prompt.

var errBusy = fault.New(CodeBusy, "As many agents as its proxies allow are at work. Please try again later.")

// reserve gives a Session's channel a slot at its proxy, until its Turn attaches.
//
// The check and the reservation are one step under reserving. The slot is reserved before acp_open is sent and becomes
// the Turn's when that attaches; a start that fails in between gives it up (setReserved).
func (f *fleet) reserve(c *channel) error {
	if !c.p.online() {
		return errOffline
	}
	f.reserving.Lock()
	defer f.reserving.Unlock()
	if !c.takesSlot() && f.load(c.p) >= slots(c.p) && !f.makeRoom(c.p) {
		return errBusy
	}
	c.setReserved(true)
	return nil
}

// reserveNew binds a new Session to the least busy proxy of an Agent. Room is made only where
// none has any.
func (f *fleet) reserveNew(agentID string, row store.SandboxInstance) (*channel, error) {
	f.reserving.Lock()
	defer f.reserving.Unlock()
	p, err := f.leastBusy(agentID)
	if err != nil {
		return nil, err
	}
	row.ProxyID = p.id
	c := f.bind(row, p)
	c.setReserved(true)
	return c, nil
}

// candidate is a proxy that is there, and how many of its slots are taken.
type candidate struct {
	p    *proxy
	load int
}

func (f *fleet) leastBusy(agentID string) (*proxy, error) {
	var there []candidate
	for _, p := range f.allProxies() {
		if p.agentID() == agentID && p.online() {
			there = append(there, candidate{p, f.load(p)})
		}
	}
	if len(there) == 0 {
		return nil, errOffline
	}
	// The least busy first; of equally busy ones always the same, so that tests and operators can foresee it.
	slices.SortFunc(there, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.p.id, b.p.id)) })
	for _, cand := range there {
		if cand.load < slots(cand.p) {
			return cand.p, nil
		}
	}
	for _, cand := range there {
		if f.makeRoom(cand.p) {
			return cand.p, nil
		}
	}
	return nil, errBusy
}

// unlimited stands for a proxy that names no bound.
const unlimited = 1 << 30

// slots is how many agents a proxy runs at a time.
func slots(p *proxy) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.row.MaxConcurrent <= 0 {
		return unlimited
	}
	return p.row.MaxConcurrent
}

// load is how many of the proxy's slots are taken.
func (f *fleet) load(p *proxy) int {
	n := 0
	for _, c := range f.allChannels() {
		if c.p == p && c.takesSlot() {
			n++
		}
	}
	return n
}

// makeRoom closes the agent of the Session that has rested longest.
// Its Session loses nothing but time: the next prompt starts the agent again and loads its session.
func (f *fleet) makeRoom(p *proxy) bool {
	var oldest *channel
	var since time.Time
	for _, c := range f.allChannels() {
		if c.p != p || c.isBusy() || !c.agent.isRunning() {
			continue
		}
		if used, _ := c.times(); oldest == nil || used.Before(since) {
			oldest, since = c, used
		}
	}
	if oldest != nil {
		oldest.close()
	}
	return oldest != nil
}
