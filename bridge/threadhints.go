package bridge

import (
	"context"
	"sync"
	"time"

	"aqueduct/bridge/livefeed"
	"aqueduct/store"
)

// hintRest is the least time between two hints that one thread has changed: while an agent
// talks its bell rings for every commit.
const hintRest = time.Second

// threadHints publishes hints that a thread changed, or that a Question of it was opened or
// settled, for every kind of agent.
type threadHints struct {
	hub   *livefeed.Hub
	store store.SessionReader
	wake  chan struct{}

	mu      sync.Mutex
	waiting map[string]bool // changed, and not published yet
}

// maxWaitingThreads bounds what waits to be published; hints may be lost.
const maxWaitingThreads = 4096

func newThreadHints(hub *livefeed.Hub, sessions store.SessionReader) *threadHints {
	return &threadHints{hub: hub, store: sessions, wake: make(chan struct{}, 1), waiting: make(map[string]bool)}
}

// wanted reports whether hints have a reader. Without one the bell of every commit costs nothing but this look.
func (t *threadHints) wanted() bool { return t.hub != nil && t.hub.Watched() }

// changed notes that something of the thread may have changed. It never waits.
func (t *threadHints) changed(sessionID string) {
	if !t.wanted() {
		return
	}
	t.mu.Lock()
	if len(t.waiting) < maxWaitingThreads {
		t.waiting[sessionID] = true
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run publishes until ctx ends. Changes during a rest are published after it, one hint per thread.
// The rest is taken before the list is read, so that a change during it is in the next round and never lost.
func (t *threadHints) run(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		rest.Reset(hintRest)
		t.mu.Lock()
		ids := t.waiting
		t.waiting = make(map[string]bool)
		t.mu.Unlock()
		for id := range ids {
			t.publishThread(ctx, id)
		}
	}
}

// publishThread publishes the thread as it is now; of a deleted one only that it is gone.
func (t *threadHints) publishThread(ctx context.Context, sessionID string) {
	if !t.wanted() {
		return
	}
	s, err := t.store.Session(ctx, store.System(), sessionID)
	if err != nil {
		s = store.Session{ID: sessionID}
	}
	t.hub.Publish(sessionID, livefeed.ThreadChanged(s))
}

// approvals gives hints of what was asked and settled.
func (t *threadHints) approvals(_ context.Context, changes []store.ApprovalChange) {
	for _, c := range changes {
		t.hub.Publish(c.Approval.SessionID, livefeed.ApprovalChanged(c))
	}
}
