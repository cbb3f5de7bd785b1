package eventlog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"aqueduct/internal/wake"
	"aqueduct/store"
)

// pollEvery is how often the bells of all listeners are rung whatever happened: what
// makes a lost ring harmless.
const pollEvery = 2 * time.Second

// Bell wakes the watchers of a Session, on this replica and through the Broker on all.
// A ring carries nothing: the log and the rows are the truth, so rings may be lost,
// doubled or early.
type Bell struct {
	broker store.Broker

	mu        sync.Mutex
	listeners map[string]map[wake.Signal]bool // by Session; false: of Watch, not counted by Listeners
	all       func(sessionID string)          // set before Run, and so read without the lock
	watchers  []func(sessionID string)        // likewise
}

// NewBell makes a Bell; Run must be running for rings to arrive.
func NewBell(b store.Broker) *Bell {
	return &Bell{broker: b, listeners: make(map[string]map[wake.Signal]bool)}
}

// OnRing sets the one function that is called for every ring. It must be set before Run and
// be quick.
func (b *Bell) OnRing(heard func(sessionID string)) { b.all = heard }

// OnAny adds a function that is called for every ring, and for every Session that this replica
// commits something of. It must be added before Run and be quick.
func (b *Bell) OnAny(rung func(sessionID string)) { b.watchers = append(b.watchers, rung) }

// Run carries rings from the Broker to listeners until ctx ends, and rings all bells
// every now and then so that a lost ring costs only time.
func (b *Bell) Run(ctx context.Context) error {
	var polling sync.WaitGroup
	polling.Go(func() { b.poll(ctx) })
	err := b.broker.Listen(ctx, b.received)
	polling.Wait()
	return err
}

// Ring tells everybody that a request was made of these Sessions.
func (b *Bell) Ring(sessionIDs ...string) { b.broker.Ring(context.Background(), sessionIDs...) }

// committed wakes who tails these Sessions on this replica. The owner that committed is
// not notified: it asked for the commit.
func (b *Bell) committed(sessionIDs []string) {
	for _, id := range sessionIDs {
		b.wake(id)
		b.notifyWatchers(id)
	}
}

func (b *Bell) notifyWatchers(sessionID string) {
	for _, rung := range b.watchers {
		rung(sessionID)
	}
}

// Listen gives a channel that is rung for one Session. Rings that were not taken yet
// are one ring.
func (b *Bell) Listen(sessionID string) (<-chan struct{}, func()) { return b.listen(sessionID, true) }

// Watch is Listen for a watcher that is not there for the Session's sake, and does not
// count among its Listeners.
func (b *Bell) Watch(sessionID string) (<-chan struct{}, func()) {
	return b.listen(sessionID, false)
}

func (b *Bell) listen(sessionID string, present bool) (<-chan struct{}, func()) {
	ch := wake.New()
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.listeners[sessionID]
	if set == nil {
		set = make(map[wake.Signal]bool)
		b.listeners[sessionID] = set
	}
	set[ch] = present
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(set, ch)
		// Called a second time, set may be one that was dropped, and the Session may have another by now.
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

func (b *Bell) received(sessionID string) {
	// A ring of the Broker's is of a request on any replica, this one included.
	b.wake(sessionID)
	b.notifyWatchers(sessionID)
	if b.all != nil {
		b.all(sessionID)
	}
}

func (b *Bell) wake(sessionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.listeners[sessionID] {
		ch.Ring()
	}
}

// poll rings the bells of this replica's listeners. It does not call OnRing's function, whose owner looks at the rows
// now and then by itself.
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
	return slices.Collect(maps.Keys(b.listeners))
}
