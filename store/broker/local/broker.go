// Package local is the Broker of a server that is alone: its rings never leave the
// process.
package local

import (
	"context"
	"sync"

	"aqueduct/store"
)

// pending bounds the Sessions a listener still has to hear of. Two rings of one
// Session are one, so the bound is on Sessions; a listener that is further behind
// loses rings, which its slow poll makes up for.
const pending = 4096

// Broker implements store.Broker. The zero value is ready.
type Broker struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

var _ store.Broker = (*Broker)(nil)

// New makes a Broker.
func New() *Broker { return &Broker{} }

// Ring implements store.Broker. It only notes the rings, so it never waits for heard.
func (b *Broker) Ring(_ context.Context, sessionIDs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		l.ring(sessionIDs)
	}
}

// Listen implements store.Broker. heard runs in the caller's goroutine.
func (b *Broker) Listen(ctx context.Context, heard func(sessionID string)) error {
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
				heard(id)
			}
		}
	}
}

// listener keeps what one Listen has not passed on yet, in the order it was rung.
type listener struct {
	mu      sync.Mutex
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
