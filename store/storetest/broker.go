package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"aqueduct/store"
)

// brokerPatience bounds what a Broker that works does at once, even over a busy network.
const brokerPatience = 20 * time.Second

// RunBroker tries what store.Broker promises. open returns the Brokers of two replicas of one
// installation, which are the same where a Broker is within one process. As rings may be lost,
// a test repeats a ring until it arrives, and takes as an error only what must never happen.
func RunBroker(t *testing.T, open func(t *testing.T) (one, other store.Broker)) {
	for _, p := range []struct {
		name string
		test func(t *testing.T, one, other store.Broker)
	}{
		{"EveryReplica", testRingsReachEveryReplica},
		{"NoListener", testRingWithoutListener},
		{"ListenEnds", testListenEnds},
		{"SlowListener", testSlowListener},
		{"RingWhileListening", testRingWhileListening},
		{"Many", testManyRings},
	} {
		t.Run(p.name, func(t *testing.T) {
			one, other := open(t)
			p.test(t, one, other)
		})
	}
}

// ringListener is one Listen with all that it got.
type ringListener struct {
	cancel context.CancelFunc
	ended  chan error
	on     func(id string) // called for every ring, outside the lock; may be nil

	mu    sync.Mutex
	rings map[string]int
	done  bool // Listen has returned
	late  int  // calls after that
}

func listen(t *testing.T, b store.Broker, on func(id string)) *ringListener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &ringListener{cancel: cancel, ended: make(chan error, 1), on: on, rings: make(map[string]int)}
	go func() {
		err := b.Listen(ctx, l.ring)
		l.mu.Lock()
		l.done = true
		l.mu.Unlock()
		l.ended <- err
	}()
	t.Cleanup(cancel)
	return l
}

func (l *ringListener) ring(id string) {
	l.mu.Lock()
	l.rings[id]++
	if l.done {
		l.late++
	}
	l.mu.Unlock()
	if l.on != nil {
		l.on(id)
	}
}

func (l *ringListener) got(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rings[id] > 0
}

// end ends the Listen and checks that it returns, without an error.
func (l *ringListener) end(t *testing.T) {
	t.Helper()
	l.cancel()
	select {
	case err := <-l.ended:
		if err != nil {
			t.Errorf("Listen ended with %v", err)
		}
	case <-time.After(brokerPatience):
		t.Fatal("Listen does not end with its context")
	}
}

// onlyOf checks that no other ring arrived than those of ids.
func (l *ringListener) onlyOf(t *testing.T, ids ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.rings {
		if !contains(ids, id) {
			t.Errorf("got a ring of %q, which nothing rang", id)
		}
	}
}

// ringUntil repeats a ring of a Session until all listeners got it.
func ringUntil(t *testing.T, b store.Broker, id string, listeners ...*ringListener) {
	t.Helper()
	await(t, func() { b.Ring(t.Context(), id) }, id, listeners...)
}

// await calls ring until all listeners got a ring of the Session.
func await(t *testing.T, ring func(), id string, listeners ...*ringListener) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for late := time.After(brokerPatience); ; {
		ring()
		missing := 0
		for _, l := range listeners {
			if !l.got(id) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%d of %d listeners got no ring of %q", missing, len(listeners), id)
		}
	}
}

// testRingsReachEveryReplica: from either replica rings arrive at the listeners of both, and
// only what was rung arrives.
func testRingsReachEveryReplica(t *testing.T, one, other store.Broker) {
	all := []*ringListener{listen(t, one, nil), listen(t, one, nil), listen(t, other, nil)}
	ringUntil(t, one, "a", all...)
	ringUntil(t, other, "b", all...)
	one.Ring(t.Context()) // of no Session
	ringUntil(t, one, "c", all...)
	for _, l := range all {
		l.end(t)
		l.onlyOf(t, "a", "b", "c")
	}
}

// testRingWithoutListener: Ring returns with no listener and with a context that has ended, and
// the rings after that arrive. A listener that has ended gets nothing more.
func testRingWithoutListener(t *testing.T, one, other store.Broker) {
	one.Ring(t.Context(), "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one.Ring(ended, "a")
	l := listen(t, other, nil)
	ringUntil(t, one, "b", l)
	l.end(t)
	l.onlyOf(t, "a", "b")
	one.Ring(t.Context(), "c")
	l.onlyOf(t, "a", "b")
}

// testListenEnds: a Listen ends with its context while rings go on, is not called afterwards,
// and leaves other listeners alone. One that begins with an ended context ends at once.
func testListenEnds(t *testing.T, one, other store.Broker) {
	stays := listen(t, other, nil)
	ringing, stop := context.WithCancel(t.Context())
	var ringer sync.WaitGroup
	ringer.Go(func() {
		for ringing.Err() == nil {
			one.Ring(ringing, "a")
		}
	})
	var left []*ringListener
	for range 20 {
		l := listen(t, other, nil)
		await(t, func() {}, "a", l)
		l.end(t)
		left = append(left, l)
	}
	stop()
	ringer.Wait()
	ringUntil(t, one, "b", stays)
	for _, l := range left {
		l.mu.Lock()
		if l.late > 0 {
			t.Errorf("%d calls after Listen had returned", l.late)
		}
		l.mu.Unlock()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one.Listen(ended, func(string) {}); err != nil {
		t.Errorf("Listen with an ended context: %v", err)
	}
	stays.end(t)
}

// testSlowListener: a listener that hangs delays neither Ring nor the others, and goes on with
// later rings when it hangs no more.
func testSlowListener(t *testing.T, one, other store.Broker) {
	release, hangs := make(chan struct{}), make(chan struct{}, 1)
	slow := listen(t, one, func(string) {
		select {
		case hangs <- struct{}{}:
		default:
		}
		<-release
	})
	quick := listen(t, other, nil)
	ringUntil(t, one, "a", slow, quick)
	<-hangs
	rung := make(chan struct{})
	go func() {
		defer close(rung)
		for i := range 10_000 {
			one.Ring(context.Background(), fmt.Sprint("n", i))
		}
	}()
	select {
	case <-rung:
	case <-time.After(brokerPatience):
		t.Fatal("Ring waits for a listener that hangs")
	}
	ringUntil(t, one, "b", quick)
	close(release)
	ringUntil(t, one, "c", slow, quick)
	slow.end(t)
	quick.end(t)
}

// testRingWhileListening: onRing may ring, and is never called twice at a time.
func testRingWhileListening(t *testing.T, one, other store.Broker) {
	var inside sync.Mutex
	echo := listen(t, other, func(id string) {
		if !inside.TryLock() {
			t.Error("onRing is called while it runs")
			return
		}
		defer inside.Unlock()
		if id == "ask" {
			other.Ring(context.Background(), "answer")
		}
	})
	asks := listen(t, one, nil)
	await(t, func() { one.Ring(t.Context(), "ask") }, "answer", asks)
	echo.end(t)
	asks.end(t)
	asks.onlyOf(t, "ask", "answer")
}

// testManyRings: many ring many Sessions from both replicas while listeners come and go; the
// one that stays can be reached for each Session, and nothing is invented.
func testManyRings(t *testing.T, one, other store.Broker) {
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
	}
	stays := listen(t, other, nil)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			b := one
			if n%2 == 1 {
				b = other
			}
			ctx, cancel := context.WithCancel(context.Background())
			passing := make(chan error, 1)
			go func() { passing <- b.Listen(ctx, func(string) {}) }()
			for i := range ids {
				b.Ring(ctx, ids[i:]...)
			}
			cancel()
			if err := <-passing; err != nil {
				t.Errorf("a Listen beside: %v", err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		ringUntil(t, one, id, stays)
	}
	stays.end(t)
	stays.onlyOf(t, ids...)
}
