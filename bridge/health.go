package bridge

import (
	"context"
	"time"
)

// Prober is an Agent that can tell whether it is well.
type Prober interface {
	Healthy(ctx context.Context) error
}

// probeEvery is how often Agents are asked whether they are well: often enough to tell an
// operator before a user does, seldom enough to cost nothing.
const probeEvery = 30 * time.Second

// Probe asks every Agent that can tell, now and then, until ctx ends. found gets each
// answer; nil is well. A prompt is given to an Agent whatever the probe found: it may have
// come back a moment ago, and an error of its own tells the user more.
func (d *Directory) Probe(ctx context.Context, found func(id string, err error)) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		for _, id := range d.IDs() {
			if p, ok := d.agent(id).(Prober); ok {
				found(id, p.Healthy(ctx))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
