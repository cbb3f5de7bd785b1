package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/bubbletest"
)

// probed is an Agent that answers probes as the test has it.
type probed struct {
	bridge.Agent
	took  time.Duration // as an address takes that does not answer
	err   error
	asked atomic.Int32
}

// Healthy implements bridge.Prober.
func (p *probed) Healthy(ctx context.Context) error {
	p.asked.Add(1)
	select {
	case <-time.After(p.took):
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probing probes a Directory for a time, and gives when each Agent was first found to be what it is.
func probing(t *testing.T, d *bridge.Directory, span time.Duration) (first map[string]time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var mu sync.Mutex
	first = make(map[string]time.Duration)
	began := time.Now()
	d.Probe(ctx, func(id string, _ error) {
		mu.Lock()
		defer mu.Unlock()
		if _, known := first[id]; !known {
			first[id] = time.Since(began)
		}
	})
	return first
}

func hole() *probed { return &probed{took: 5 * time.Second, err: errors.New("no answer")} }

// TestProbesOfManyDeadAgents: a tenant's agents that do not answer delay neither the operator's nor another tenant's, and
// one of its own that is well no more than once.
func TestProbesOfManyDeadAgents(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		d := bridge.NewDirectory()
		for i := range 500 {
			d.Put("bad", fmt.Sprint("hole", i), nil, hole())
		}
		own, other, among := &probed{}, &probed{}, &probed{}
		d.Add("own", own)
		d.Put("good", "other", nil, other)
		d.Put("bad", "among", nil, among)
		first := probing(t, d, 10*time.Minute)
		for id, within := range map[string]time.Duration{"own": 2 * time.Second, "other": 2 * time.Second, "among": 3 * time.Minute} {
			if at, asked := first[id]; !asked || at > within {
				t.Errorf("%s was probed after %v (%t), not within %v", id, at, asked, within)
			}
		}
		for id, p := range map[string]*probed{"own": own, "other": other} {
			if n := p.asked.Load(); n < 18 || n > 21 {
				t.Errorf("%s was probed %d times in ten minutes, not every 30 s", id, n)
			}
		}
		if n := among.asked.Load(); n < 12 {
			t.Errorf("one that is well was probed %d times among many that are not", n)
		}
		if len(first) != 503 {
			t.Errorf("%d of 503 were probed", len(first))
		}
	})
}

// TestProbesAtOnce: so many probes are under way of one tenant, and of all.
func TestProbesAtOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		d := bridge.NewDirectory()
		for tenant := range 10 {
			for i := range 30 {
				d.Put(fmt.Sprint("t", tenant), fmt.Sprint(tenant, "-", i), nil, hole())
			}
		}
		for i := range 100 {
			d.Add(fmt.Sprint("own", i), hole())
		}
		if n := len(probing(t, d, 6*time.Second)); n != 64+16 {
			t.Errorf("%d probes were made at once", n)
		}
	})
}

// TestProbedAtOnce: an agent that comes while others are probed, or takes the place of another, is probed at once, and one
// that went is not.
func TestProbedAtOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		d := bridge.NewDirectory()
		old, next := hole(), &probed{}
		d.Put("t", "a", nil, old)
		goes := &probed{}
		d.Put("t", "goes", nil, goes)
		go func() {
			time.Sleep(70 * time.Second)
			d.Put("t", "a", old, next)
			d.Take("goes", goes)
		}()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(75*time.Second, cancel)
		d.Probe(ctx, func(string, error) {})
		if _, health := d.Health("a"); next.asked.Load() != 1 || health.Err != nil {
			t.Errorf("the new one was probed %d times: %v", next.asked.Load(), health.Err)
		}
		if goes.asked.Load() != 3 {
			t.Errorf("the one that went was probed %d times", goes.asked.Load())
		}
	})
}
