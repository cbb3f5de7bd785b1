// Package mcpclients is the Agent that stands for MCP clients: programs of a user that call tools without a prompt
// (bridge.ClientCalls). It has no upstream. A Turn of it is open while tool calls are made in it, and ends a moment after the
// last; what it holds is in the rows of its calls, so that any replica can take it up.
package mcpclients

import (
	"context"
	"sync"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

const (
	// idleTime is how long a Turn stays open after its last call: a client that makes one call after another stays in one.
	idleTime = 10 * time.Second
	// lookEvery is how often a Turn looks at its calls. They may be made at another replica, which rings no bell of an Agent's.
	lookEvery = time.Second
)

// Agent implements bridge.Agent.
type Agent struct{ store store.Reader }

// New makes the Agent.
func New(st store.Reader) *Agent { return &Agent{store: st} }

// Start implements bridge.Agent.
func (a *Agent) Start(_ context.Context, call bridge.Call) (bridge.Turn, error) {
	return &turn{store: a.store, id: call.TurnID, last: time.Now(), cancelled: make(chan struct{})}, nil
}

// Resume implements bridge.Agent. There are no answers to deliver: the calls get theirs where they are kept.
func (a *Agent) Resume(ctx context.Context, call bridge.Call, _ []approval.Delivery) (bridge.Turn, error) {
	return a.Start(ctx, call)
}

// turn implements bridge.Turn.
type turn struct {
	store     store.Reader
	id        string
	calls     int       // that were seen
	last      time.Time // when one was under way or new
	once      sync.Once
	cancelled chan struct{}
}

// Next implements bridge.Turn. It waits until no call was under way for a while. While the store cannot be read the Turn stays
// open.
func (t *turn) Next(ctx context.Context) ([]bridge.Output, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.cancelled:
			return []bridge.Output{{End: &bridge.End{}}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if all, underWay, err := t.store.CountToolCalls(ctx, store.System(), t.id); err == nil && t.over(all, underWay, time.Now()) {
			return []bridge.Output{{End: &bridge.End{}}}, nil
		}
	}
}

// over reports whether no call is under way, and none was lately. What calls hold is not read: a Turn may be open all day.
func (t *turn) over(all, underWay int, now time.Time) bool {
	if underWay > 0 || all != t.calls {
		t.calls, t.last = all, now
	}
	return now.Sub(t.last) > idleTime
}

// Cancel implements bridge.Turn.
func (t *turn) Cancel(context.Context) error {
	t.once.Do(func() { close(t.cancelled) })
	return nil
}

// Release implements bridge.Turn.
func (t *turn) Release() {}
