package bridge

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
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
	// probesAtOnce keeps many Agents that do not answer from delaying the others' probes: each may take seconds.
	probesAtOnce = 16
)

// Probe asks every Agent that can tell, now and then, until ctx ends. found gets each answer, one at a time for each
// Agent; nil is well. A prompt is given to an Agent whatever the probe found: it may have come back a moment ago, and an
// error of its own tells the user more.
func (d *Directory) Probe(ctx context.Context, found func(id string, err error)) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		var probes errgroup.Group
		probes.SetLimit(probesAtOnce)
		for _, id := range d.IDs() {
			probes.Go(func() error {
				if asks, err := d.probe(ctx, id); asks {
					found(id, err)
				}
				return nil
			})
		}
		_ = probes.Wait() // they report through found
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probe asks one Agent, if it can tell, and keeps what was found, unless another Agent has the id by then.
func (d *Directory) probe(ctx context.Context, id string) (asks bool, found error) {
	d.mu.RLock()
	asked := d.entries[id].agent
	d.mu.RUnlock()
	p, ok := asked.(Prober)
	if !ok {
		return false, nil
	}
	found = p.Healthy(ctx)
	if ctx.Err() != nil {
		return false, nil // the end of the server broke it off, which is no finding
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A probe takes seconds, in which the id may have got another Agent; what was found is not about that one.
	if e := d.entries[id]; e.agent == asked {
		e.health = Health{At: time.Now(), Err: found}
		d.entries[id] = e
	}
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
