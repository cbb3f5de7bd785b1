package bridge

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Prober is an Agent that can tell whether it is well.
type Prober interface {
	Healthy(ctx context.Context) error
}

// Health is what an Agent's last probe found.
type Health struct {
	At  time.Time // zero: it was not probed, or cannot be
	Err error     // nil is well
}

const (
	// probeEvery is how often Agents are asked whether they are well: often enough to tell an operator before a user
	// does, seldom enough to cost nothing.
	probeEvery = 30 * time.Second
	// probeGone is how often a registered Agent is asked that did not answer goneAfter times in a row. So the 500 that one
	// tenant may have keep up with its share of probes, nearly, also when each of them takes the whole time of a probe.
	probeGone = 2 * time.Minute
	goneAfter = 4
	// probeLook is how often it is looked whose time has come, and which Agents there are.
	probeLook = time.Second

	// The operator's Agents, those of everybody, have probes of their own; no registered one delays them. Of the probes for
	// registered ones a tenant has a quarter at most.
	probesOfOperator = 16
	probesOfTenant   = 16
	probesOfTenants  = 64
)

// Probe asks every Agent that can tell, now and then, until ctx ends. found gets each answer; nil is well. A prompt is given
// to an Agent whatever the probe found: it may have come back a moment ago, and an error of its own tells the user more.
//
// Each has a time of its own: one that takes seconds to be found dead delays no other, but where a tenant has too many
// of them, and then its own alone, those that were well before the others.
func (d *Directory) Probe(ctx context.Context, found func(id string, err error)) {
	p := probes{
		directory: d, found: found, plans: make(map[string]*probePlan), flying: make(map[string]int),
		done: make(chan *probePlan, probesOfOperator+probesOfTenants),
	}
	tick := time.NewTicker(probeLook)
	defer tick.Stop()
	defer p.wg.Wait()
	for {
		p.look()
		p.begin(ctx)
		select {
		case plan := <-p.done:
			p.ended(plan)
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probes are those of one Probe. Its goroutine alone uses it, but for wg and done.
type probes struct {
	directory *Directory
	found     func(id string, err error)
	plans     map[string]*probePlan // by id
	flying    map[string]int        // by tenant, "" is the operator
	wg        sync.WaitGroup
	done      chan *probePlan
}

// probePlan is when an Agent is asked next. While it is asked, its goroutine has err.
type probePlan struct {
	id, tenant string
	agent      Agent
	due        time.Time
	asked      bool // and has not answered
	failed     int  // times in a row
	err        error
}

// look makes plans for the Agents that there are by now, and drops those of others.
func (p *probes) look() {
	here := p.directory.probed()
	for id, plan := range p.plans {
		if at, ok := here[id]; !ok || at.agent != plan.agent {
			delete(p.plans, id)
		}
	}
	for id, e := range here {
		if p.plans[id] == nil {
			p.plans[id] = &probePlan{id: id, tenant: e.tenant, agent: e.agent}
		}
	}
}

// begin asks those whose time has come and for whom there is room.
func (p *probes) begin(ctx context.Context) {
	now := time.Now()
	var due []*probePlan
	for _, plan := range p.plans {
		if !plan.asked && !now.Before(plan.due) {
			due = append(due, plan)
		}
	}
	slices.SortFunc(due, func(a, b *probePlan) int {
		return cmp.Or(cmp.Compare(a.failed, b.failed), a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	for _, plan := range due {
		if !p.room(plan.tenant) {
			continue
		}
		p.flying[plan.tenant]++
		plan.asked, plan.due = true, now.Add(probeEvery)
		p.wg.Go(func() {
			var asks bool
			if asks, plan.err = p.directory.probe(ctx, plan.id, plan.agent); asks {
				p.found(plan.id, plan.err)
			}
			p.done <- plan
		})
	}
}

// room reports whether another Agent of a tenant may be asked now.
func (p *probes) room(tenant string) bool {
	if tenant == "" {
		return p.flying[""] < probesOfOperator
	}
	all := -p.flying[""]
	for _, n := range p.flying {
		all += n
	}
	return p.flying[tenant] < probesOfTenant && all < probesOfTenants
}

func (p *probes) ended(plan *probePlan) {
	if p.flying[plan.tenant]--; p.flying[plan.tenant] == 0 {
		delete(p.flying, plan.tenant)
	}
	plan.asked = false
	if plan.failed++; plan.err == nil {
		plan.failed = 0
	}
	if plan.tenant != "" && plan.failed >= goneAfter {
		plan.due = plan.due.Add(probeGone - probeEvery)
	}
}

// probed are the Agents that can tell.
func (d *Directory) probed() map[string]entry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	here := make(map[string]entry)
	for id, e := range d.entries {
		if _, tells := e.agent.(Prober); tells {
			here[id] = e
		}
	}
	return here
}

// probe asks one Agent and keeps what was found. It is no finding where the server ends meanwhile, or another Agent has the
// id by then.
func (d *Directory) probe(ctx context.Context, id string, asked Agent) (is bool, found error) {
	p, ok := asked.(Prober)
	if !ok {
		return false, nil
	}
	found = p.Healthy(ctx)
	if ctx.Err() != nil {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[id]
	if e.agent != asked {
		return false, nil
	}
	e.health = Health{At: time.Now(), Err: found}
	d.entries[id] = e
	return true, found
}

// Health is what is known of an Agent here: whether it would take a prompt, as far as it can tell, and its last probe.
func (d *Directory) Health(id string) (available bool, last Health) {
	d.mu.RLock()
	e := d.entries[id]
	d.mu.RUnlock()
	a, tells := e.agent.(Availability)
	return e.agent != nil && (!tells || a.Available()), e.health
}
