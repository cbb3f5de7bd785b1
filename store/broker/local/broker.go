// Package local is the Broker of a server that is alone: its rings never leave the
// process.
package local

import (
	"context"
	"sync"

	"aqueduct/store"
)

// pending bounds the rings that wait for a listener. Two rings of one Session are merged, so
// the bound is on Sessions; a listener that is further behind loses rings, which its slow
// poll makes up for.
const pending = 4096

// Broker implements store.Broker. It has no goroutine: Ring queues, and each listener's own
// goroutine, the caller of Listen, empties its queue. The zero value is ready.
type Broker struct {
	mu        sync.Mutex // guards listeners; taken before a listener's own lock
	listeners map[*listener]struct{}
}

var _ store.Broker = (*Broker)(nil)

// New makes a Broker.
func New() *Broker { return &Broker{} }

// Ring implements store.Broker. It only queues the rings, so it never waits for onRing.
func (b *Broker) Ring(_ context.Context, sessionIDs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		l.ring(sessionIDs)
	}
}

// Listen implements store.Broker. onRing runs in the caller's goroutine.
func (b *Broker) Listen(ctx context.Context, onRing func(sessionID string)) error {
	l := &listener{waiting: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	b.mu.Lock()
	if b.listeners == nil {
		b.listeners = make(map[*listener]struct{})
	}
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			for _, id := range l.take() {
				onRing(id)
			}
		}
	}
}

// listener is the queue of one Listen: the Sessions it has not passed to onRing yet, in the
// order they were rung.
type listener struct {
	mu      sync.Mutex // guards order and waiting; never held while onRing runs
	order   []string
	waiting map[string]struct{}
	wake    chan struct{} // holds a token while order is not empty
}

func (l *listener) ring(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if _, twice := l.waiting[id]; twice || len(l.order) == pending {
			continue
		}
		l.waiting[id] = struct{}{}
		l.order = append(l.order, id)
	}
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.order
	l.order = nil
	clear(l.waiting)
	return ids
}
