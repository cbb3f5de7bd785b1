package livefeed_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"aqueduct/bridge/livefeed"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alice() store.Principal { return store.Principal{Tenant: "acme", User: "alice"} }
func bob() store.Principal   { return store.Principal{Tenant: "acme", User: "bob"} }

// hubEnv is a running Hub over a database in which alice has sessions a1 and a2, bob b1.
type hubEnv struct {
	*testing.T
	hub     *livefeed.Hub
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

func newHubEnv(t *testing.T) *hubEnv {
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
	e := &hubEnv{T: t}
	e.hub = livefeed.New(livefeed.Config{Sessions: counted{st, &e.asked}, Dropped: func() { e.dropped.Add(1) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *hubEnv) watch(what livefeed.Wanted) *livefeed.Watch {
	watch := e.hub.Subscribe(what)
	e.Cleanup(watch.Close)
	return watch
}

// receives reads until as many hints as wanted are there and compares.
func (e *hubEnv) receives(watch *livefeed.Watch, want ...string) {
	e.Helper()
	var got []string
	for len(got) < len(want) {
		frames, err := watch.Next(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		for _, f := range frames {
			got = append(got, string(f))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Fatalf("heard %v, want %v", got, want)
	}
}

// TestWhoHears: each only what it may see and asked for.
func TestWhoHears(t *testing.T) {
	t.Parallel()
	e := newHubEnv(t)
	as, bs := e.watch(livefeed.Wanted{In: store.As(alice())}), e.watch(livefeed.Wanted{In: store.As(bob())})
	one := e.watch(livefeed.Wanted{In: store.As(alice()), SessionID: "a2", Proxies: true})
	foreign := e.watch(livefeed.Wanted{In: store.As(bob()), SessionID: "a1"})
	operator := e.watch(livefeed.Wanted{In: store.As(bob()), Proxies: true})
	nobody := e.watch(livefeed.Wanted{})
	system := e.watch(livefeed.Wanted{In: store.System()})
	for _, id := range []string{"a1", "b1", "gone", "a2", ""} {
		e.hub.Publish(id, []byte(id))
	}
	e.hub.PublishAll([]byte("all"))
	e.hub.Publish("b1", []byte("last"))
	e.hub.Publish("a2", []byte("last"))
	e.receives(system, "a1", "b1", "gone", "a2", "last", "last") // everything is handed round by now
	e.receives(as, "a1", "a2", "last")
	e.receives(bs, "b1", "last")
	e.receives(one, "a2", "last")
	e.receives(operator, "b1", "all", "last")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, watch := range map[string]*livefeed.Watch{"foreign": foreign, "nobody": nobody, "as": as, "bs": bs, "one": one} {
		if got, err := watch.Next(ended); err == nil {
			t.Errorf("%s hears %q", name, got)
		}
	}
}

// TestTheDatabaseIsAskedOnce for each Session.
func TestTheDatabaseIsAskedOnce(t *testing.T) {
	t.Parallel()
	e := newHubEnv(t)
	as := e.watch(livefeed.Wanted{In: store.As(alice())})
	for i := range 100 {
		e.hub.Publish("gone", []byte("x"))
		e.hub.Publish("a1", fmt.Append(nil, i))
		e.receives(as, fmt.Sprint(i))
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestTheSlowLose checks that a slow watcher loses its newest hints, that no publisher waits for it, and that the loss is
// counted.
func TestTheSlowLose(t *testing.T) {
	t.Parallel()
	e := newHubEnv(t)
	slow, quick := e.watch(livefeed.Wanted{In: store.As(alice())}), e.watch(livefeed.Wanted{In: store.As(alice())})
	other := e.watch(livefeed.Wanted{In: store.As(bob())})
	const n = 600
	for i := range n {
		e.hub.Publish("a1", fmt.Append(nil, i))
		e.receives(quick, fmt.Sprint(i))
	}
	// The hub gives a frame to one watcher after the other. Once a later frame has come, all have had the frames before it.
	e.hub.Publish("b1", []byte("later"))
	e.receives(other, "later")
	got, err := slow.Next(t.Context())
	if err != nil || len(got) == 0 || len(got) == n || string(got[0]) != "0" || e.dropped.Load() != int64(n-len(got)) {
		t.Errorf("heard %d, dropped %d, %v", len(got), e.dropped.Load(), err)
	}
	e.hub.Publish("a1", []byte("again"))
	e.receives(slow, "again")
	// One that is larger than may ever wait is lost, and the next one is not.
	e.receives(quick, "again")
	before := e.dropped.Load()
	e.hub.Publish("a1", bytes.Repeat([]byte("x"), 3<<20))
	e.hub.Publish("a1", []byte("small"))
	e.receives(quick, "small")
	e.hub.Publish("b1", []byte("last"))
	e.receives(other, "last")
	if e.dropped.Load() != before+2 {
		t.Errorf("dropped %d", e.dropped.Load()-before)
	}
}

// TestNobodyWatches: then nothing is queued, and nothing is asked.
func TestNobodyWatches(t *testing.T) {
	e := newHubEnv(t)
	frame := []byte("x")
	if allocs := testing.AllocsPerRun(1000, func() { e.hub.Publish("a1", frame) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if e.hub.Watched() {
		t.Error("watched")
	}
	as := e.hub.Subscribe(livefeed.Wanted{In: store.As(alice())})
	e.hub.Publish("a1", []byte("y"))
	e.receives(as, "y")
	as.Close()
	as.Close()
	if e.hub.Watched() || e.asked.Load() != 1 || e.dropped.Load() != 0 {
		t.Errorf("%t, asked %d, dropped %d", e.hub.Watched(), e.asked.Load(), e.dropped.Load())
	}
}

// TestPublishingNeverWaits checks that Publish returns also while Run does not run.
func TestPublishingNeverWaits(t *testing.T) {
	t.Parallel()
	var dropped int
	hub := livefeed.New(livefeed.Config{Dropped: func() { dropped++ }})
	watch := hub.Subscribe(livefeed.Wanted{In: store.System()})
	defer watch.Close()
	for range 10_000 {
		hub.Publish("a1", []byte("x"))
	}
	if dropped == 0 || dropped == 10_000 {
		t.Errorf("dropped %d", dropped)
	}
}
