package limit

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aqueduct/internal/bubbletest"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

func user(name string) store.Principal { return store.Principal{Tenant: "t", User: name} }

// If this fails, one sender of slow bodies keeps all others out, or a refused body stays counted for ever.
func TestBodyBudgetGivesEachAShare(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		busy := 0
		b := NewBodyBudget(Limits{Bodies: 800, Body: 99, BodiesWait: time.Second}, func() { busy++ })
		grow := func(h *HeldBody, n int64) error { return h.Grow(t.Context(), n) }
		ann, bob, unknown := b.Hold("ann"), b.Hold("bob"), b.Hold("")
		if err := grow(ann, 400); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := grow(ann, 1); fault.CodeOf(err) != BusyBodies || time.Since(begun) != time.Second || busy != 1 {
			t.Errorf("beyond one sender's half: %v after %v, %d counted", err, time.Since(begun), busy)
		}
		if err := grow(unknown, 101); fault.CodeOf(err) != BusyBodies {
			t.Errorf("beyond the part of unknown senders: %v", err)
		}
		if err := errors.Join(grow(unknown, 100), grow(bob, 300)); err != nil || b.bytes() != 800 {
			t.Errorf("within their parts: %v, %d bytes are held", err, b.bytes())
		}
		if err := grow(bob, 1); fault.CodeOf(err) != BusyBodies {
			t.Errorf("beyond the whole: %v", err)
		}
		freed := make(chan error, 1)
		go func() { freed <- bob.GrowTo(t.Context(), 400) }()
		time.Sleep(time.Millisecond)
		ann.Release()
		ann.Release() // a second release gives nothing back
		if err := <-freed; err != nil || b.bytes() != 500 {
			t.Errorf("after a release: %v, %d bytes are held", err, b.bytes())
		}
		bob.Release()
		unknown.Release()
		if b.bytes() != 0 || len(b.by) != 0 {
			t.Errorf("after all: %d bytes of %d senders are held", b.bytes(), len(b.by))
		}
	})
}

// refusals is how many the metrics have of a limit.
func refusals(t *testing.T, registry *prometheus.Registry, limit string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "aqueduct_limit_refusals_total" && m.GetLabel()[0].GetValue() == limit {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// If this fails, a loop of one user is not stopped, or stops all who share its address.
func TestBrakesTake(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	b := NewBrakes(Limits{Runs: Rate{PerSecond: 0.001, Burst: 1}, Decisions: Rate{PerSecond: 0.001, Burst: 1}}, NewMeter(registry))
	const here = "10.0.0.1:1"
	if err := b.Take(b.Runs, user("ann"), here); err != nil {
		t.Fatal(err)
	}
	var often *TooOften
	if err := b.Take(b.Runs, user("ann"), "10.0.0.2:1"); !errors.As(err, &often) || often.After <= 0 {
		t.Errorf("a second Run of one user from elsewhere: %v", err)
	}
	if err := b.Take(b.Decisions, user("ann"), here); err != nil {
		t.Errorf("a decision of one who has run: %v", err)
	}
	for _, name := range []string{"bob", "cid", "dan"} {
		if err := b.Take(b.Runs, user(name), "10.0.0.1:2"); err != nil {
			t.Errorf("%s at the same address: %v", name, err)
		}
	}
	if err := b.Take(b.Runs, user("eve"), "10.0.0.1:3"); !errors.As(err, &often) {
		t.Errorf("a fifth user at one address: %v", err)
	}
	if err := b.Take(b.Runs, store.Principal{Tenant: "t2", User: "ann"}, "10.0.0.3:1"); err != nil {
		t.Errorf("a user of that name of another tenant: %v", err)
	}
	if err := b.Take(b.Invokes, user("ann"), here); err != nil {
		t.Errorf("without a rate: %v", err)
	}
	if n := refusals(t, registry, "runs"); n != 2 {
		t.Errorf("%v refusals are counted", n)
	}
}

// If this fails, an operator's own setting is ignored, or a body of the largest size can never be read.
func TestLimitsWithDefaults(t *testing.T) {
	t.Parallel()
	d := Limits{}.WithDefaults()
	if d != d.WithDefaults() {
		t.Error("defaults are changed by defaults")
	}
	if d.Body != 4<<20 || d.History != 64<<20 || d.SocketsPerPrincipal != 250 || d.AnonymousPerAddress != 1024 || d.Runs.Burst != 5000 {
		t.Errorf("the defaults are %+v", d)
	}
	l := Limits{Body: 100 << 20, Bodies: 1, Sockets: 2, AnonymousConnections: 1, Heartbeat: time.Second}.WithDefaults()
	if l.Body != 100<<20 || l.Heartbeat != time.Second || l.Sockets != 2 {
		t.Errorf("settings have become %+v", l)
	}
	if l.History < l.Body || l.Bodies < callerShare*(l.Body+1) || l.SocketsPerPrincipal != 1 || l.AnonymousPerAddress != 1 {
		t.Errorf("what depends on them is %+v", l)
	}
}

// If this fails, one user's loop takes the sockets of all, or a socket that has left still counts.
func TestSocketsAdmit(t *testing.T) {
	t.Parallel()
	draining, drain := context.WithCancel(t.Context())
	s := NewSockets(Limits{Sockets: 3, SocketsPerPrincipal: 2, SocketsBeforeHello: 1}, draining, NewMeter(prometheus.NewRegistry()))
	admit := func(name string) (*Slot, string) {
		slot, err := s.Admit(user(name))
		return slot, fault.CodeOf(err)
	}
	a, code := admit("ann")
	if code != "" {
		t.Fatal(code)
	}
	admit("ann")
	if _, code := admit("ann"); code != TooManySockets {
		t.Errorf("a third socket of one user: %q", code)
	}
	admit("bob")
	if _, code := admit("cid"); code != TooManyStreams {
		t.Errorf("a fourth socket: %q", code)
	}
	a.Leave()
	if _, code := admit("ann"); code != "" {
		t.Errorf("after one has left: %q", code)
	}
	if known, waiting := s.counts(); known != 3 || waiting != 0 {
		t.Errorf("%d sockets, %d wait", known, waiting)
	}
	drain()
	if _, code := admit("bob"); code != ShuttingDown {
		t.Errorf("while the server goes away: %q", code)
	}
	if _, err := s.Await("10.0.0.1", func() {}); fault.CodeOf(err) != ShuttingDown {
		t.Errorf("without a hello while the server goes away: %v", err)
	}
}

// If this fails, an attacker's idle sockets keep users out, or evict the user's instead of the attacker's.
func TestSocketsAwaitEvictsTheMostCommonAddress(t *testing.T) {
	t.Parallel()
	s := NewSockets(Limits{Sockets: 9, SocketsPerPrincipal: 9, SocketsBeforeHello: 3}, t.Context(), NewMeter(prometheus.NewRegistry()))
	evicted := ""
	await := func(name, peer string) *Slot {
		slot, err := s.Await(peer, func() { evicted += name })
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	good := await("g", "10.0.0.1")
	bad := await("1", "10.0.0.2")
	await("2", "10.0.0.2")
	await("3", "10.0.0.2")
	if evicted != "1" {
		t.Errorf("evicted are %q", evicted)
	}
	if err := bad.Identify(user("eve")); fault.CodeOf(err) != TooManyStreams {
		t.Errorf("one that was evicted authenticates: %v", err)
	}
	if err := good.Identify(user("ann")); err != nil {
		t.Error(err)
	}
	if known, waiting := s.counts(); known != 1 || waiting != 2 {
		t.Errorf("%d sockets, %d wait", known, waiting)
	}
	bad.Leave()
	good.Leave()
	if known, waiting := s.counts(); known != 0 || waiting != 2 {
		t.Errorf("after two have left: %d sockets, %d wait", known, waiting)
	}
}

// If this fails, the server stops while sockets are open, or never stops.
func TestSocketsWait(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := NewSockets(Limits{Sockets: 1, SocketsPerPrincipal: 1, SocketsBeforeHello: 1}, t.Context(), NewMeter(prometheus.NewRegistry()))
		slot, err := s.Admit(user("ann"))
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() { s.Wait(); close(over) }()
		bubbletest.Wait()
		select {
		case <-over:
			t.Fatal("it does not wait for an open socket")
		default:
		}
		if _, err := s.Admit(user("bob")); fault.CodeOf(err) != ShuttingDown {
			t.Errorf("a socket is let in meanwhile: %v", err)
		}
		slot.Leave()
		<-over
	})
}

// pipe is a connection from an address.
func pipe(l *Connections, peer string) *limitedConn {
	conn, _ := net.Pipe()
	return &limitedConn{Conn: conn, limiter: l, peer: peer}
}

// If this fails, idle connections of one attacker keep users out, or an authenticated one is closed for a stranger's.
func TestConnectionsEvictTheOldestAnonymous(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := NewConnections(Limits{Connections: 1, AnonymousConnections: 3, AnonymousPerAddress: 2}, func() {})
	l.now = func() time.Time { return now }
	a1, a2, b := pipe(l, "a"), pipe(l, "a"), pipe(l, "b")
	for _, c := range []*limitedConn{a1, a2} {
		if evict, wait, _ := l.tryAdd(c); evict != nil || wait > 0 {
			t.Fatalf("a place that is free: %v, %v", evict, wait)
		}
		now = now.Add(100 * time.Millisecond)
	}
	a3 := pipe(l, "a")
	if evict, wait, _ := l.tryAdd(a3); evict != nil || wait > 0 {
		t.Errorf("a third of one address while all are young: %v, %v", evict, wait)
	}
	if _, wait, freed := l.tryAdd(b); wait != anonymousAge-200*time.Millisecond || freed == nil {
		t.Errorf("a full pool of young ones: wait %v", wait)
	}
	now = now.Add(anonymousAge)
	if evict, wait, _ := l.tryAdd(b); evict != a1 || wait > 0 {
		t.Errorf("a full pool: evicted is the oldest %v, wait %v", evict == a1, wait)
	}
	if evict, _, _ := l.tryAdd(pipe(l, "a")); evict != a2 {
		t.Error("one more of an address that has its share does not evict that address's oldest")
	}
	if known, anonymous := l.counts(); known != 0 || anonymous != 3 {
		t.Errorf("%d known, %d anonymous", known, anonymous)
	}
	if l.promote(a1) {
		t.Error("one that was evicted is promoted")
	}
	for range 2 { // each request on it with a good credential
		if !l.promote(b) {
			t.Error("a connection with a good credential is refused")
		}
	}
	if l.promote(a3) {
		t.Error("the bound on authenticated connections is not kept")
	}
	if known, anonymous := l.counts(); known != 1 || anonymous != 2 {
		t.Errorf("%d known, %d anonymous", known, anonymous)
	}
	_ = b.Close()
	_ = b.Close() // net/http may close twice
	if !l.promote(a3) {
		t.Error("a closed connection still takes a place")
	}
	if ctx := ConnContext(t.Context(), b); Authenticated(ctx) {
		t.Error("a closed connection authenticates")
	}
	if !Authenticated(t.Context()) || !Authenticated(ConnContext(t.Context(), a3)) {
		t.Error("a connection without a limit, or a known one, is refused")
	}
	if l.all.Len() != 1 {
		t.Errorf("%d are left", l.all.Len())
	}
}

// If this fails, requests that wait for a person for days take the room of those that are read, or memory without bound.
func TestParkedBodies(t *testing.T) {
	t.Parallel()
	b := NewBodyBudget(Limits{Bodies: 800, Body: 99, BodiesWait: time.Millisecond}, func() {})
	first, second, more := b.Hold("ann"), b.Hold("ann"), b.Hold("ann")
	if err := errors.Join(first.Grow(t.Context(), 300), first.Park(), first.Park(), second.Grow(t.Context(), 400)); err != nil || b.bytes() != 700 {
		t.Fatalf("%v, %d bytes are held", err, b.bytes())
	}
	if err := second.Park(); fault.CodeOf(err) != BusyBodies {
		t.Errorf("beyond one sender's half of those that wait: %v", err)
	}
	first.Release()
	if err := errors.Join(second.Park(), more.Park(), more.Grow(t.Context(), 400)); err != nil || b.bytes() != 800 {
		t.Errorf("%v, %d bytes are held", err, b.bytes())
	}
	second.Release()
	more.Release()
	if b.bytes() != 0 || len(b.by)+len(b.parked.by) != 0 {
		t.Errorf("after all: %d bytes", b.bytes())
	}
}

// TestS47WeightsDoNotWaitForEachOther: bodies that fill a sender's share are decoded one after the other, and none of them is
// refused because the others wait as well. Everything is given back.
func TestS47WeightsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		b := NewBodyBudget(Limits{Bodies: 800, Body: 99, BodiesWait: time.Second}, func() {})
		var all sync.WaitGroup
		var most, now atomic.Int64
		for range 4 { // which hold all of ann's share
			all.Go(func() {
				h := b.Hold("ann")
				defer h.Release()
				if err := errors.Join(h.Grow(t.Context(), 100), h.Weigh(t.Context(), 1_000_000), h.Weigh(t.Context(), 5)); err != nil {
					t.Error(err)
				}
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(100 * time.Millisecond) // of the bubble's clock
				now.Add(-1)
			})
		}
		all.Wait()
		if most.Load() != 1 || b.bytes() != 0 || len(b.decoded.by) != 0 {
			t.Errorf("%d at once; %d bytes are held in the end", most.Load(), b.bytes())
		}
	})
}
