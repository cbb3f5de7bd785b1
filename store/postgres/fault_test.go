package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// rig is a store behind a Wire, another on the same database without one, and plain
// SQL beside them.
type rig struct {
	*testing.T
	ctx  context.Context
	wire *storetest.Wire
	near *postgres.Store // through the Wire: the one that suffers
	far  *postgres.Store
	db   *sql.DB
	seq  int64
	runs int
	bulk []byte
}

func newRig(t *testing.T) *rig {
	dsn := storetest.Postgres(t)
	wire, through := storetest.NewWire(t, dsn)
	r := &rig{T: t, ctx: context.Background(), wire: wire, far: openAt(t, dsn), near: openAt(t, through),
		bulk: make([]byte, 16<<10)}
	var err error
	if r.db, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	r.ok(r.near.Register(r.ctx, store.Replica{ID: "first", Name: "name"}))
	r.ok(r.near.InTx(r.ctx, func(tx store.Tx) error {
		now := time.UnixMilli(1)
		return tx.InsertSession(r.ctx, store.Session{ID: "s", Tenant: "t", User: "u", ExternalID: "x", AgentID: "a",
			CreatedAt: now, UpdatedAt: now})
	}))
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) is(got, want error) {
	r.Helper()
	if !errors.Is(got, want) {
		r.Fatalf("error %v, want %v", got, want)
	}
}

// batch is the next row of the Session, large enough to be cut in two, and with moves
// a Run and the Session's title.
func (r *rig) batch(moves bool) *store.Batch {
	r.seq++
	b := &store.Batch{Replica: "first", Events: []store.EventRow{{SessionID: "s", LastSeq: r.seq, N: 1,
		TS: time.UnixMilli(r.seq), Data: r.bulk}}}
	if moves {
		r.runs++
		b.Moves = []store.Move{
			store.InsertRun{Run: store.Run{ID: fmt.Sprint("run-", r.seq), SessionID: "s", TurnID: "t",
				ExternalID: fmt.Sprint(r.seq), Status: store.RunReserved, CreatedAt: time.UnixMilli(1)}},
			store.SessionMove{ID: "s", Title: fmt.Sprint(r.seq), UpdatedAt: time.UnixMilli(1)},
		}
	}
	return b
}

func (r *rig) commit(b *store.Batch) error {
	_, err := r.near.Commit(r.ctx, b)
	return err
}

// later commits in the background.
func (r *rig) later(b *store.Batch) <-chan error {
	end := make(chan error, 1)
	go func() { end <- r.commit(b) }()
	return end
}

// holds checks that exactly what was sent is there, once.
func (r *rig) holds() {
	r.Helper()
	rows, err := r.far.Events(r.ctx, store.System(), "s", 0, 1<<30)
	r.ok(err)
	if int64(len(rows)) != r.seq {
		r.Errorf("%d rows, want %d", len(rows), r.seq)
	}
	runs, err := r.far.RunsOfTurn(r.ctx, store.System(), "t")
	r.ok(err)
	if len(runs) != r.runs {
		r.Errorf("%d runs, want %d", len(runs), r.runs)
	}
}

// until repeats a query until its answer is true.
func (r *rig) until(query string, args ...any) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	for yes := false; !yes; {
		r.ok(r.db.QueryRowContext(ctx, query, args...).Scan(&yes))
	}
}

// shareHeld is true while a transaction holds the row of the replica.
const shareHeld = `SELECT EXISTS (SELECT 1 FROM replicas WHERE id = $1)
	AND NOT EXISTS (SELECT 1 FROM (SELECT 1 FROM replicas WHERE id = $1 FOR UPDATE SKIP LOCKED) free)`

func eachWay(t *testing.T, test func(t *testing.T, moves bool)) {
	for name, moves := range map[string]bool{"events": false, "moves": true} {
		t.Run(name, func(t *testing.T) { test(t, moves) })
	}
}

// The Batch landed and the answer was lost: only its repetition shows that.
func TestUnknownOutcomeLanded(t *testing.T) {
	eachWay(t, func(t *testing.T, moves bool) {
		r := newRig(t)
		r.ok(r.commit(r.batch(moves)))
		r.wire.Mute()
		b := r.batch(moves)
		end := r.later(b)
		r.until("SELECT EXISTS (SELECT 1 FROM events WHERE last_seq = $1)", r.seq)
		r.wire.Cut()
		r.is(<-end, store.ErrUnknownOutcome)
		r.wire.Thaw()
		r.is(r.commit(b), store.ErrConflict)
		r.ok(r.commit(r.batch(moves)))
		r.holds()
	})
}

// The connection ended in the middle of the Batch: nothing of it is there.
func TestUnknownOutcomeNotLanded(t *testing.T) {
	eachWay(t, func(t *testing.T, moves bool) {
		r := newRig(t)
		r.ok(r.commit(r.batch(moves)))
		for _, cutAt := range []int{1, 100, 300, 8000} {
			r.wire.Freeze(cutAt)
			b := r.batch(moves)
			end := r.later(b)
			r.wire.Spent()
			r.wire.Cut()
			r.is(<-end, store.ErrUnknownOutcome)
			r.wire.Thaw()
			r.ok(r.commit(b))
			r.holds()
		}
	})
}

// The server ends the committer's backend while it waits in mid-commit.
func TestBackendTerminated(t *testing.T) {
	eachWay(t, func(t *testing.T, moves bool) {
		r := newRig(t)
		r.ok(r.commit(r.batch(moves)))
		block, err := r.db.Begin()
		r.ok(err)
		_, err = block.Exec("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
		r.ok(err)
		b := r.batch(moves)
		end := r.later(b)
		r.until(`SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity
			WHERE application_name = 'aqueduct commit first' AND wait_event_type = 'Lock'`)
		r.is(<-end, store.ErrUnknownOutcome)
		r.ok(block.Rollback())
		r.ok(r.commit(b))
		r.holds()
	})
}

// Backends are ended at any moment; a writer that repeats until the answer is clear has
// every row once.
func TestBackendsTerminatedAtRandom(t *testing.T) {
	const rows = 200
	r := newRig(t)
	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, _ = r.db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE application_name = 'aqueduct commit first' AND xact_start IS NOT NULL AND random() < 0.2`)
			}
		}
	})
	doubts := 0
	for range rows {
		b := r.batch(r.seq%2 == 0)
		for doubt := false; ; {
			err := r.commit(b)
			if errors.Is(err, store.ErrUnknownOutcome) {
				doubt = true
				doubts++
			}
			if err == nil || doubt && errors.Is(err, store.ErrConflict) {
				break
			}
			if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	}
	close(done)
	killer.Wait()
	t.Logf("%d doubts", doubts)
	r.holds()
}

// A replica freezes in mid-commit with its row held. Its successor's Register returns
// within bounds, and what the frozen one was writing never lands.
func TestFrozenInMidCommit(t *testing.T) {
	r := newRig(t)
	r.ok(r.commit(r.batch(true))) // the statements are prepared now, so the next is one write
	r.wire.Freeze(400)            // the fence passes, the rows do not
	frozen := r.batch(true)
	end := r.later(frozen)
	r.until(shareHeld, "first")

	begun := time.Now()
	r.ok(r.far.Register(r.ctx, store.Replica{ID: "second", Name: "name"}))
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("Register took %s", took)
	}
	r.wire.Thaw()
	r.is(<-end, store.ErrUnknownOutcome)
	r.is(r.commit(frozen), store.ErrFenced)
	r.is(r.near.Beat(r.ctx, "first"), store.ErrFenced)
	r.seq, r.runs = r.seq-1, r.runs-1
	r.holds()
	frozen.Replica = "second"
	r.seq, r.runs = r.seq+1, r.runs+1
	_, err := r.far.Commit(r.ctx, frozen)
	r.ok(err)
	r.holds()
}

// Fence does the same for a replica of any name.
func TestFenceEndsFrozenCommit(t *testing.T) {
	r := newRig(t)
	r.ok(r.commit(r.batch(true)))
	r.wire.Freeze(400)
	end := r.later(r.batch(true))
	r.until(shareHeld, "first")
	r.ok(r.far.Fence(r.ctx, "first"))
	r.wire.Thaw()
	r.is(<-end, store.ErrUnknownOutcome)
	r.seq, r.runs = r.seq-1, r.runs-1
	r.holds()
}

// A Batch of events only is one statement: frozen in the middle it holds nothing, and
// arriving late it is refused.
func TestFrozenBeforeStatement(t *testing.T) {
	r := newRig(t)
	r.ok(r.commit(r.batch(false)))
	r.wire.Freeze(400)
	end := r.later(r.batch(false))
	r.wire.Spent()
	begun := time.Now()
	r.ok(r.far.Register(r.ctx, store.Replica{ID: "second", Name: "name"}))
	if took := time.Since(begun); took > time.Second {
		t.Errorf("Register took %s although nothing is held", took)
	}
	r.wire.Thaw()
	r.is(<-end, store.ErrFenced)
	r.seq--
	r.holds()
}

// The database goes away and comes back: errors name it, and nothing has to be
// restarted.
func TestDatabaseAway(t *testing.T) {
	r := newRig(t)
	r.ok(r.commit(r.batch(true)))
	r.wire.Refuse()
	b := r.batch(true)
	for range 3 {
		if err := r.commit(b); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Commit: %v", err)
		}
	}
	_, err := r.near.LastSeq(r.ctx, store.System(), "s")
	r.is(err, store.ErrUnavailable)
	r.is(r.near.Ping(r.ctx), store.ErrUnavailable)
	r.is(r.near.Beat(r.ctx, "first"), store.ErrUnavailable)
	r.is(r.near.InTx(r.ctx, func(store.Tx) error { return nil }), store.ErrUnavailable)
	r.wire.Restore()
	r.ok(r.near.Ping(r.ctx))
	r.ok(r.commit(b))
	r.holds()
}

// TestTwoWriters: two transactions that do not see each other's row add rows to one log. The database lets one of them
// land: the second waits for the first, and is refused when that is committed.
func TestTwoWriters(t *testing.T) {
	r := newRig(t)
	insert := "INSERT INTO events (session_id, last_seq, n, ts, data) VALUES ('s', $1::bigint, $1::int, 1, '{}')"
	for commits, other := range map[bool]int{true: 5, false: 3} {
		first, err := r.db.Begin()
		r.ok(err)
		_, err = first.Exec(insert, 2)
		r.ok(err)
		second := make(chan error)
		go func() {
			_, err := r.db.Exec(insert, other)
			second <- err
		}()
		r.until("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO events%')") // it waits for the first
		if commits {
			r.ok(first.Commit())
		} else {
			r.ok(first.Rollback())
		}
		if err := <-second; commits != (err != nil) {
			t.Errorf("the first commits: %t; the second: %v", commits, err)
		}
		rows, err := r.far.Events(r.ctx, store.System(), "s", 0, 1<<20)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows: %v", len(rows), err)
		}
		_, err = r.db.Exec("DELETE FROM events")
		r.ok(err)
	}
}

// The hole test: two connections commit out of order, and a reader beside them waits
// for the earlier rows. The database refuses such rows today (TestTwoWriters); a reader does not depend on that.
func TestHole(t *testing.T) {
	r := newRig(t)
	_, err := r.db.Exec("DROP TRIGGER events_append ON events")
	r.ok(err)
	early, err := r.db.Begin()
	r.ok(err)
	insert := "INSERT INTO events (session_id, last_seq, n, ts, data) VALUES ('s', $1, 2, 1, '{}')"
	_, err = early.Exec(insert, 2)
	r.ok(err)
	_, err = r.db.Exec(insert, 4)
	r.ok(err)
	read := func(after int64, want int) {
		t.Helper()
		rows, err := r.far.Events(r.ctx, store.System(), "s", after, 1<<20)
		r.ok(err)
		if len(rows) != want {
			t.Errorf("after %d: %d rows, want %d", after, len(rows), want)
		}
	}
	read(0, 0)
	r.ok(early.Commit())
	read(0, 2)
	read(1, 2)
	read(2, 1)
}

// Two requests that lock in opposite order: the database ends one of them, and it is
// run again.
func TestDeadlockIsRunAgain(t *testing.T) {
	dsn := storetest.Postgres(t)
	s := openAt(t, dsn+"&deadlock_timeout=10ms")
	ctx := context.Background()
	now := time.UnixMilli(1)
	for _, id := range []string{"a", "b"} {
		err := s.InTx(ctx, func(tx store.Tx) error {
			return tx.InsertSession(ctx, store.Session{ID: id, Tenant: "t", User: "u", ExternalID: id, AgentID: "a",
				CreatedAt: now, UpdatedAt: now})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var both, all sync.WaitGroup
	both.Add(2)
	tries := make([]int, 2)
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		all.Go(func() {
			err := s.InTx(ctx, func(tx store.Tx) error {
				tries[i]++
				for n, id := range order {
					if n == 1 && tries[i] == 1 {
						both.Done()
						both.Wait()
					}
					if _, err := tx.LockSession(ctx, store.System(), id); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if tries[0]+tries[1] < 3 { // more when the second tries meet again
		t.Errorf("tries %v", tries)
	}
}

// TestPatience: a read and a transaction of a patient context wait until the database is back; others fail at once. A
// statement of a transaction is not repeated by itself.
func TestPatience(t *testing.T) {
	r := newRig(t)
	r.ok(r.commit(r.batch(true)))
	for name, fault := range map[string]struct{ begin, over func() }{
		"refused":       {r.wire.Refuse, r.wire.Restore},
		"answers eaten": {r.wire.MuteAll, func() { r.wire.Thaw(); r.wire.Cut() }},
	} {
		fault.begin()
		if name == "refused" { // a connection that stays open without an answer is waited for
			_, err := r.near.LastSeq(r.ctx, store.System(), "s")
			r.is(err, store.ErrUnavailable)
		}
		ctx, runs := store.Patient(r.ctx), 0
		var all sync.WaitGroup
		all.Go(func() {
			if last, err := r.near.LastSeq(ctx, store.System(), "s"); err != nil || last == 0 {
				t.Errorf("%s: a read gives %d, %v", name, last, err)
			}
		})
		all.Go(func() {
			err := r.near.InTx(ctx, func(tx store.Tx) error {
				runs++
				_, err := tx.LockSession(ctx, store.System(), "s")
				return err
			})
			if err != nil {
				t.Errorf("%s: a transaction gives %v after %d runs", name, err, runs)
			}
		})
		gone, leave := context.WithCancel(store.Patient(r.ctx))
		all.Go(func() {
			if _, err := r.near.LastSeq(gone, store.System(), "s"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a read whose context has ended gives %v", name, err)
			}
		})
		time.AfterFunc(100*time.Millisecond, leave)
		<-gone.Done()
		fault.over()
		all.Wait()
		leave()
	}
	r.holds()
}

// TestPatientReadBeginsAnew: a connection that breaks between two rows of a read gives no row twice.
func TestPatientReadBeginsAnew(t *testing.T) {
	r := newRig(t)
	for range 40 {
		r.ok(r.commit(r.batch(true)))
	}
	want, err := r.far.Events(r.ctx, store.System(), "s", 0, 1<<30)
	r.ok(err)
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				r.wire.Cut()
			}
		}
	})
	for i := range 6 {
		if i == 5 {
			close(stop)
			cutter.Wait()
		}
		bounded, cancel := context.WithTimeout(store.Patient(r.ctx), 2*time.Second)
		got, err := r.near.Events(bounded, store.System(), "s", 0, 1<<30)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue // cut each time
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("read %d: %d rows of %d, %v", i, len(got), len(want), err)
		}
	}
}
