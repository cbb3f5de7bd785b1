package hints_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"aqueduct/bridge/hints"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alice() store.Principal { return store.Principal{Tenant: "acme", User: "alice"} }
func bob() store.Principal   { return store.Principal{Tenant: "acme", User: "bob"} }

// world is a running Hub over a database in which alice has sessions a1 and a2, bob b1.
type world struct {
	*testing.T
	hub     *hints.Hub
	dropped atomic.Int64
	asked   atomic.Int64
}

// counted counts how often the database is asked.
type counted struct {
	store.SessionReader
	n *atomic.Int64
}

func (c counted) Session(ctx context.Context, in store.Scope, id string) (store.Session, error) {
	c.n.Add(1)
	return c.SessionReader.Session(ctx, in, id)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		for id, p := range map[string]store.Principal{"a1": alice(), "a2": alice(), "b1": bob()} {
			s := store.Session{ID: id, Tenant: p.Tenant, User: p.User, ExternalID: id, AgentID: "x", CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
			if err := tx.InsertSession(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	w.hub = hints.New(hints.Config{Sessions: counted{st, &w.asked}, Dropped: func() { w.dropped.Add(1) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) watch(what hints.Wanted) *hints.Watch {
	watch := w.hub.Subscribe(what)
	w.Cleanup(watch.Close)
	return watch
}

// hears reads until as many hints as wanted are there and compares.
func (w *world) hears(watch *hints.Watch, want ...string) {
	w.Helper()
	var got []string
	for len(got) < len(want) {
		frames, err := watch.Next(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range frames {
			got = append(got, string(f))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("heard %v, want %v", got, want)
	}
}

// TestWhoHears: each only what it may see and asked for.
func TestWhoHears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as, bs := w.watch(hints.Wanted{In: store.As(alice())}), w.watch(hints.Wanted{In: store.As(bob())})
	one := w.watch(hints.Wanted{In: store.As(alice()), SessionID: "a2", Proxies: true})
	foreign := w.watch(hints.Wanted{In: store.As(bob()), SessionID: "a1"})
	operator := w.watch(hints.Wanted{In: store.As(bob()), Proxies: true})
	nobody := w.watch(hints.Wanted{})
	system := w.watch(hints.Wanted{In: store.System()})
	for _, id := range []string{"a1", "b1", "gone", "a2", ""} {
		w.hub.Publish(id, []byte(id))
	}
	w.hub.PublishAll([]byte("all"))
	w.hub.Publish("b1", []byte("last"))
	w.hub.Publish("a2", []byte("last"))
	w.hears(system, "a1", "b1", "gone", "a2", "last", "last") // everything is handed round by now
	w.hears(as, "a1", "a2", "last")
	w.hears(bs, "b1", "last")
	w.hears(one, "a2", "last")
	w.hears(operator, "b1", "all", "last")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, watch := range map[string]*hints.Watch{"foreign": foreign, "nobody": nobody, "as": as, "bs": bs, "one": one} {
		if got, err := watch.Next(ended); err == nil {
			t.Errorf("%s hears %q", name, got)
		}
	}
}

// TestTheDatabaseIsAskedOnce for each Session.
func TestTheDatabaseIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := w.watch(hints.Wanted{In: store.As(alice())})
	for i := range 100 {
		w.hub.Publish("gone", []byte("x"))
		w.hub.Publish("a1", fmt.Append(nil, i))
		w.hears(as, fmt.Sprint(i))
	}
	if n := w.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestTheSlowLose their newest hints; nobody waits for them, and it is counted.
func TestTheSlowLose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, quick := w.watch(hints.Wanted{In: store.As(alice())}), w.watch(hints.Wanted{In: store.As(alice())})
	const n = 600
	for i := range n {
		w.hub.Publish("a1", fmt.Append(nil, i))
		w.hears(quick, fmt.Sprint(i))
	}
	got, err := slow.Next(t.Context())
	if err != nil || len(got) == 0 || len(got) == n || string(got[0]) != "0" || w.dropped.Load() != int64(n-len(got)) {
		t.Errorf("heard %d, dropped %d, %v", len(got), w.dropped.Load(), err)
	}
	w.hub.Publish("a1", []byte("again"))
	w.hears(slow, "again")
	// One that is larger than may ever wait is lost, and the next one is not.
	w.hears(quick, "again")
	before := w.dropped.Load()
	w.hub.Publish("a1", bytes.Repeat([]byte("x"), 3<<20))
	w.hub.Publish("a1", []byte("small"))
	w.hears(quick, "small")
	if w.dropped.Load() != before+2 {
		t.Errorf("dropped %d", w.dropped.Load()-before)
	}
}

// TestNobodyWatches: then nothing is queued, and nothing is asked.
func TestNobodyWatches(t *testing.T) {
	w := newWorld(t)
	frame := []byte("x")
	if allocs := testing.AllocsPerRun(1000, func() { w.hub.Publish("a1", frame) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if w.hub.Watched() {
		t.Error("watched")
	}
	as := w.hub.Subscribe(hints.Wanted{In: store.As(alice())})
	w.hub.Publish("a1", []byte("y"))
	w.hears(as, "y")
	as.Close()
	as.Close()
	if w.hub.Watched() || w.asked.Load() != 1 || w.dropped.Load() != 0 {
		t.Errorf("%t, asked %d, dropped %d", w.hub.Watched(), w.asked.Load(), w.dropped.Load())
	}
}

// TestPublishingNeverWaits, even when nobody hands hints round.
func TestPublishingNeverWaits(t *testing.T) {
	t.Parallel()
	var dropped int
	hub := hints.New(hints.Config{Dropped: func() { dropped++ }})
	watch := hub.Subscribe(hints.Wanted{In: store.System()})
	defer watch.Close()
	for range 10_000 {
		hub.Publish("a1", []byte("x"))
	}
	if dropped == 0 || dropped == 10_000 {
		t.Errorf("dropped %d", dropped)
	}
}
