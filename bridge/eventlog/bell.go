package eventlog

import (
	"context"
	"sync"
	"time"

	"aqueduct/store"
)

// pollEvery is how often the bells of all listeners are rung whatever happened: what
// makes a lost ring harmless.
const pollEvery = 2 * time.Second

// Bell wakes whoever watches a Session, on this replica and through the Broker on all.
// A ring carries nothing: the log and the rows are the truth, so rings may be lost,
// doubled or early.
type Bell struct {
	broker store.Broker

	mu        sync.Mutex
	listeners map[string]map[chan struct{}]bool // false: it only overhears
	all       func(sessionID string)
	watchers  []func(sessionID string)
}

// NewBell makes a Bell; Run must be running for rings to be heard.
func NewBell(b store.Broker) *Bell {
	return &Bell{broker: b, listeners: make(map[string]map[chan struct{}]bool)}
}

// OnRing sets the one function that hears of every ring. It must be set before Run and
// be quick.
func (b *Bell) OnRing(heard func(sessionID string)) { b.all = heard }

// OnAny adds a function that is called for every ring, and for every Session that this replica
// commits something of. It must be added before Run and be quick.
func (b *Bell) OnAny(rung func(sessionID string)) { b.watchers = append(b.watchers, rung) }

// Run carries rings from the Broker to listeners until ctx ends, and rings all bells
// every now and then so that a lost ring costs only time.
func (b *Bell) Run(ctx context.Context) error {
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		b.poll(ctx)
	}()
	err := b.broker.Listen(ctx, b.heard)
	<-polled
	return err
}

// Ring tells everybody that a request was made of these Sessions.
func (b *Bell) Ring(sessionIDs ...string) { b.broker.Ring(context.Background(), sessionIDs...) }

// committed wakes who tails these Sessions on this replica. The owner that committed is
// not told: it asked for the commit.
func (b *Bell) committed(sessionIDs []string) {
	for _, id := range sessionIDs {
		b.wake(id)
		b.any(id)
	}
}

func (b *Bell) any(sessionID string) {
	for _, rung := range b.watchers {
		rung(sessionID)
	}
}

// Listen gives a channel that is rung for one Session. Rings that nobody has taken yet
// are one ring.
func (b *Bell) Listen(sessionID string) (<-chan struct{}, func()) { return b.listen(sessionID, true) }

// Overhear is Listen for somebody who is not there for the Session's sake, and does not
// count among its Listeners.
func (b *Bell) Overhear(sessionID string) (<-chan struct{}, func()) {
	return b.listen(sessionID, false)
}

func (b *Bell) listen(sessionID string, present bool) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.listeners[sessionID]
	if set == nil {
		set = make(map[chan struct{}]bool)
		b.listeners[sessionID] = set
	}
	set[ch] = present
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(set, ch)
		if len(set) == 0 && len(b.listeners[sessionID]) == 0 {
			delete(b.listeners, sessionID)
		}
	}
}

// Listeners is how many watch the Session on this replica.
func (b *Bell) Listeners(sessionID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, present := range b.listeners[sessionID] {
		if present {
			n++
		}
	}
	return n
}

func (b *Bell) heard(sessionID string) {
	b.wake(sessionID)
	b.any(sessionID)
	if b.all != nil {
		b.all(sessionID)
	}
}

func (b *Bell) wake(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.listeners[sessionID] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (b *Bell) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, id := range b.watched() {
				b.wake(id)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *Bell) watched() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.listeners))
	for id := range b.listeners {
		ids = append(ids, id)
	}
	return ids
}
