package eventlog

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// read takes from a tail until it stands at a position.
func read(ctx context.Context, tail *Tail, until int64) ([]string, error) {
	var all []string
	for tail.Pos() < until {
		from := tail.Pos()
		rows, err := tail.Next(ctx)
		if err != nil {
			return all, fmt.Errorf("at %d: %w", tail.Pos(), err)
		}
		if rows[0].FirstSeq() != from+1 {
			return all, fmt.Errorf("after %d comes %d", from, rows[0].FirstSeq())
		}
		all = append(all, texts(rows)...)
	}
	return all, nil
}

// Wherever a tail begins, it sees each event after that once: out of the ring, out of
// the store, and where the ring holds only the newest.
func TestTailFromEveryStart(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		for name, budget := range map[string]int{"ring": ringBudget, "no ring": 0, "half a ring": 1500} {
			t.Run(name, func(t *testing.T) {
				env := newLogEnv(t, st)
				env.log.ring = newRing(budget)
				writer := env.session()
				for n := 1; n <= 12; n++ { // rows of 1 to 12 events
					_, err := env.keep(writer, n)
					env.ok(err)
				}
				last := int(writer.Last())
				for after := range last + 1 {
					tail := env.log.Tail(store.System(), writer.sessionID, int64(after))
					got, err := read(t.Context(), tail, int64(last))
					env.ok(err)
					env.same(got, between(after, last))
					rows, err := tail.Ready(t.Context())
					if len(rows) > 0 || err != nil {
						t.Fatalf("more: %v %v", texts(rows), err)
					}
					tail.Close()
				}
			})
		}
	})
}

// Who is further behind than the ring reads the store, then goes on live out of the
// ring; who keeps up costs the store nothing.
func TestRingEviction(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		env.log.ring = newRing(2000)
		slow, other := env.session(), env.session()
		behind := env.log.Tail(store.System(), slow.sessionID, 0)
		defer behind.Close()
		ahead := env.log.Tail(store.System(), slow.sessionID, 0)
		defer ahead.Close()
		for range 20 {
			_, err := env.keep(slow, 5)
			env.ok(err)
			if _, err := read(t.Context(), ahead, slow.Last()); err != nil {
				t.Fatal(err)
			}
		}
		if n := env.db.readsOfEvents(); n != 0 {
			t.Errorf("%d reads of the store for a tail that keeps up", n)
		}
		for range 40 { // another Session's rows push this one's out
			_, err := env.keep(other, 5)
			env.ok(err)
		}
		if held := env.log.ring.bytes; held > 2000 {
			t.Errorf("the ring holds %d bytes", held)
		}
		got, err := read(t.Context(), behind, slow.Last())
		env.ok(err)
		env.same(got, upTo(100))
		if env.db.readsOfEvents() == 0 {
			t.Error("nothing was read from the store")
		}
		_, err = env.keep(slow, 1)
		env.ok(err)
		before := env.db.readsOfEvents()
		got, err = read(t.Context(), behind, slow.Last())
		env.ok(err)
		env.same(got, between(100, 101))
		if env.db.readsOfEvents() != before {
			t.Error("the newest row was not taken from the ring")
		}
	})
}

// A ring that held much and was emptied holds little.
func TestRingForgets(t *testing.T) {
	r := newRing(100)
	for seq := range int64(100_000) {
		r.publish(store.EventRow{SessionID: fmt.Sprint(seq), LastSeq: 1, N: 1, Data: make([]byte, 10)})
	}
	if len(r.rows) > 10 || len(r.order) > 4096 || r.bytes > 100 {
		t.Errorf("%d Sessions, %d places, %d bytes", len(r.rows), len(r.order), r.bytes)
	}
}

// Tails that come at any moment of a Session being written, at any position, see each
// event once: the change from store to ring to live is nobody's business.
func TestLiveSwitch(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		const total, tails = 600, 24
		env := newLogEnv(t, st)
		env.log.ring = newRing(1000)
		writer := env.session()
		var all sync.WaitGroup
		at := make(chan int, tails)
		for range tails {
			all.Go(func() {
				after := rand.IntN(<-at + 1)
				tail := env.log.Tail(store.System(), writer.sessionID, int64(after))
				defer tail.Close()
				got, err := read(t.Context(), tail, total)
				if want := between(after, total); err != nil || !slices.Equal(got, want) {
					t.Errorf("after %d: %v\ngot  %v\nwant %v", after, err, got, want)
				}
			})
		}
		for writer.Last() < total {
			n := min(1+rand.IntN(7), total-int(writer.Last()))
			if rand.IntN(3) == 0 {
				_, err := env.keep(writer, n)
				env.ok(err)
			} else {
				env.put(writer, n)
			}
			if rand.IntN(4) == 0 {
				select {
				case at <- int(writer.Last()):
				default:
				}
			}
		}
		for range tails {
			select {
			case at <- total:
			default:
			}
		}
		close(at)
		all.Wait()
	})
}

// TestHole: beside two connections that commit out of order a tail yields nothing from
// behind the hole, however often it looks.
func TestHole(t *testing.T) {
	dsn := storetest.Postgres(t)
	st, err := postgres.Open(t.Context(), dsn, postgres.Options{MaxConns: 4})
	opened(t, st, err)
	env := newLogEnv(t, st)
	writer := env.session()
	_, err = env.keep(writer, 2)
	env.ok(err)
	db, err := sql.Open("pgx", dsn)
	env.ok(err)
	defer db.Close()
	_, err = db.Exec("DROP TRIGGER events_append ON events") // the database refuses such rows; a tail does not depend on that
	env.ok(err)
	insert := func(first, n int) *sql.Tx {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		env.ok(err)
		_, err = tx.Exec(`INSERT INTO events (session_id, last_seq, n, ts, data) VALUES ($1, $2, $3, 1, $4)`,
			writer.sessionID, first+n-1, n, events(int64(first-1), n).Events)
		env.ok(err)
		return tx
	}
	late, soon := insert(3, 2), insert(5, 3)
	env.ok(soon.Commit())
	for _, ring := range []string{"with the ring", "without"} {
		if ring == "without" {
			env.log.ring = newRing(0)
		}
		for after, want := range map[int64][]string{0: upTo(2), 1: between(1, 2), 2: nil, 3: nil, 4: between(4, 7)} {
			tail := env.log.Tail(store.System(), writer.sessionID, after)
			for range 3 {
				rows, err := tail.Ready(t.Context())
				env.ok(err)
				if after < 4 || len(rows) > 0 {
					env.same(texts(rows), want)
				}
				want = nil
				env.bell.Ring(writer.sessionID)
			}
			tail.Close()
		}
	}
	tail := env.log.Tail(store.System(), writer.sessionID, 0)
	defer tail.Close()
	got, err := read(t.Context(), tail, 2)
	env.ok(err)
	env.same(got, upTo(2))
	env.ok(late.Commit())
	env.bell.wake(writer.sessionID)
	got, err = read(t.Context(), tail, 7)
	env.ok(err)
	env.same(got, between(2, 7))
}

// forgetful is a Broker that drops every second ring.
type forgetful struct {
	store.Broker
	mu   sync.Mutex
	rung int
}

func (f *forgetful) Ring(ctx context.Context, ids ...string) {
	f.mu.Lock()
	f.rung++
	lost := f.rung%2 == 1
	f.mu.Unlock()
	if !lost {
		f.Broker.Ring(ctx, ids...)
	}
}

// A lost ring costs time, never an event: a tail on a replica that did not write, and one
// who waits for a request, hear of everything at the next poll at the latest.
func TestLostRings(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		st := &memory{}
		env := newLogEnv(t, st)
		defer env.stop()
		broker := &forgetful{Broker: local.New()}
		bell := NewBell(broker)
		far := New(Config{Store: st, Bell: bell}) // another replica's: it hears of commits by rings only
		ctx, cancel := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() {
			if err := bell.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		writer := env.open("s")
		tail := far.Tail(store.System(), "s", 0)
		atOnce := 0
		for n := range 50 {
			if _, err := env.keep(writer, 1); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			bell.Ring("s")
			got, err := read(ctx, tail, writer.Last())
			env.ok(err)
			env.same(got, between(n, n+1))
			switch waited := time.Since(begun); {
			case waited == 0:
				atOnce++
			case waited > pollEvery:
				t.Errorf("heard after %v", waited)
			}
		}
		if atOnce < 25 {
			t.Errorf("%d of 50 heard at once", atOnce)
		}
		tail.Close()
		if bell.Listeners("s") != 0 || len(bell.listeners) != 0 {
			t.Error("a closed tail still listens")
		}
		cancel()
		ran.Wait()
	})
}

// A tail that waits ends with its reader.
func TestTailLeaves(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		env := newLogEnv(t, &memory{})
		defer env.stop()
		tail := env.log.Tail(store.System(), "s", 0)
		defer tail.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := tail.Next(ctx)
		env.is(err, context.DeadlineExceeded)
	})
}

// Nothing is sent that is not kept: not while its commit is under way, and not when the
// store refuses it.
func TestNothingIsSentThatIsNotKept(t *testing.T) {
	onBoth(t, func(t *testing.T, st store.Store) {
		env := newLogEnv(t, st)
		writer := env.session()
		_, err := env.keep(writer, 1)
		env.ok(err)
		tail := env.log.Tail(store.System(), writer.sessionID, 1)
		defer tail.Close()
		nothing := func() {
			t.Helper()
			if rows, err := tail.Ready(t.Context()); err != nil || len(rows) > 0 {
				t.Fatalf("sent %v, %v", texts(rows), err)
			}
		}
		held, open := env.db.shut(t)
		env.put(writer, 2)
		<-held
		nothing()
		open()
		got, err := read(t.Context(), tail, 3)
		env.ok(err)
		env.same(got, between(1, 3))
		_, err = env.keep(writer, 2, store.SessionMove{ID: writer.sessionID, State: []byte(`{"broken`), UpdatedAt: time.UnixMilli(2)})
		env.is(err, store.ErrData)
		nothing()
	})
}
