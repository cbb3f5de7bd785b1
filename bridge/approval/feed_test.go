package approval_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/internal/bubbletest"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

var errAway = errors.New("away")

// shaky is a store whose reads of Approvals fail as often as a test wants. It counts what a Feed reads.
type shaky struct {
	store.Store
	fail  atomic.Int64
	reads atomic.Int64 // of positions, and of what has none
	lists atomic.Int64 // of all that is open
	// listed is called after each of those; nil is none.
	listed func()
}

func (s *shaky) down() bool { return s.fail.Add(-1) >= 0 }

func (s *shaky) ApprovalChanges(ctx context.Context, in store.Scope, after int64, limit int) ([]store.ApprovalChange, error) {
	if s.down() {
		return nil, errAway
	}
	return s.Store.ApprovalChanges(ctx, in, after, limit)
}

func (s *shaky) LastApprovalChange(ctx context.Context, in store.Scope) (int64, error) {
	s.reads.Add(1)
	return s.Store.LastApprovalChange(ctx, in)
}

func (s *shaky) ApprovalsUnsequenced(ctx context.Context, in store.Scope) (bool, error) {
	s.reads.Add(1)
	return s.Store.ApprovalsUnsequenced(ctx, in)
}

func (s *shaky) OpenApprovals(ctx context.Context, in store.Scope, page store.Page) ([]store.ApprovalChange, error) {
	s.lists.Add(1)
	if s.down() {
		return nil, errAway
	}
	if s.listed != nil {
		defer s.listed()
	}
	return s.Store.OpenApprovals(ctx, in, page)
}

// feedEnv is a store with a Session of alice's, and feeds that follow it.
type feedEnv struct {
	*testing.T
	st      *shaky
	session string
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(*feedEnv)) {
	for name, open := range map[string]func(*testing.T) (store.Store, error){
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
		},
		"postgres": func(t *testing.T) (store.Store, error) {
			return postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			test(newFeedEnv(t, st))
		})
	}
}

// inBubble runs a test on SQLite in a bubble (internal/bubbletest), whose clock it may turn on.
func inBubble(t *testing.T, test func(*feedEnv)) {
	path := storetest.SQLite(t)
	bubbletest.Test(t, func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(newFeedEnv(t, st))
	})
}

func newFeedEnv(t *testing.T, st store.Store) *feedEnv {
	t.Helper()
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &feedEnv{T: t, st: &shaky{Store: st}, session: uuid.NewString()}
	now := time.UnixMilli(1)
	e.tx(func(tx store.Tx) error {
		return tx.InsertSession(t.Context(), store.Session{ID: e.session, Tenant: "acme", User: "alice", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now})
	})
	return e
}

func (e *feedEnv) tx(fn func(store.Tx) error) {
	e.Helper()
	if err := e.st.InTx(e.Context(), fn); err != nil {
		e.Fatal(err)
	}
}

// feed runs one until the test ends.
func (e *feedEnv) feed() *approval.Feed {
	return e.feedOf(approval.FeedConfig{})
}

// feedOf runs one on the test's store.
func (e *feedEnv) feedOf(cfg approval.FeedConfig) *approval.Feed {
	cfg.Store = e.st
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := approval.NewFeed(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	e.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (e *feedEnv) ask() string {
	e.Helper()
	return e.askMany(1)[0]
}

func (e *feedEnv) askMany(n int) (ids []string) {
	e.Helper()
	for range n {
		ids = append(ids, uuid.Must(uuid.NewV7()).String())
	}
	e.tx(func(tx store.Tx) error {
		for _, id := range ids {
			if err := tx.InsertApproval(e.Context(), store.Approval{ID: id, SessionID: e.session, TurnID: "t", Kind: store.ApprovalPermission,
				Status: store.ApprovalPending, CreatedAt: time.UnixMilli(1)}); err != nil {
				return err
			}
		}
		return nil
	})
	return ids
}

func (e *feedEnv) settle(id string) {
	e.Helper()
	e.tx(func(tx store.Tx) error {
		_, err := tx.MoveApproval(e.Context(), store.ApprovalMove{ID: id, To: store.ApprovalApproved, DecidedAt: time.UnixMilli(2)})
		return err
	})
}

// expect reads steps until as many came as are wanted, trying again after errors.
func (e *feedEnv) expect(w *approval.Follower, want ...string) (last int64) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		steps, err := w.Next(ctx)
		if err != nil && !errors.Is(err, errAway) {
			e.Fatalf("%v after %v, want %v", err, got, want)
		}
		for _, s := range steps {
			kind := [...]string{"opened ", "settled ", "gone ", "synced"}[s.Kind]
			if s.Seq > 0 {
				last = s.Seq
			}
			got = append(got, kind+s.Change.Approval.ID+s.ID)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return last
}

// TestFeedLosesNothing: whatever read fails, and whenever the follower was away, it is given
// every step once.
func TestFeedLosesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(e *feedEnv) {
		f := e.feed()
		first := e.ask()
		e.st.fail.Store(2)
		w := f.Follow(store.Deciding(store.Principal{Tenant: "acme", User: "alice"}), 0)
		last := e.expect(w, "opened "+first, "synced")
		second := e.ask()
		f.Look()
		last = max(last, e.expect(w, "opened "+second))
		e.st.fail.Store(1)
		e.settle(first)
		f.Look()
		last = max(last, e.expect(w, "settled "+first))
		w.Close()
		third := e.ask()
		e.settle(second)
		e.st.fail.Store(2)
		w = f.Follow(store.Within("acme"), last)
		defer w.Close()
		e.expect(w, "opened "+third, "settled "+second, "synced")
		e.tx(func(tx store.Tx) error { return tx.DeleteSession(e.Context(), e.session, time.UnixMilli(9)) })
		e.st.fail.Store(1)
		f.Reconcile("acme")
		e.expect(w, "gone "+third)
	})
}

// TestFeedOfAnotherReplica: what another replica gave a position to is found without a ring.
func TestFeedOfAnotherReplica(t *testing.T) {
	t.Parallel()
	onBoth(t, func(e *feedEnv) {
		here, there := e.feed(), e.feed()
		w, other := here.Follow(store.Within("acme"), 0), there.Follow(store.Within("acme"), 0)
		defer w.Close()
		defer other.Close()
		e.expect(w, "synced")
		e.expect(other, "synced")
		id := e.ask()
		there.Look()
		e.expect(other, "opened "+id)
		e.expect(w, "opened "+id) // within a poll
	})
}

// TestFeedTellsWhoWatches: a feed that is wanted calls back with every change, and not with
// those of a time in which it was not.
func TestFeedTellsWhoWatches(t *testing.T) {
	t.Parallel()
	onBoth(t, func(e *feedEnv) {
		var wanted atomic.Bool
		heard := make(chan string, 16)
		f := approval.NewFeed(approval.FeedConfig{Store: e.st, Logger: slog.New(slog.DiscardHandler), Wanted: wanted.Load,
			Changed: func(_ context.Context, changes []store.ApprovalChange) {
				for _, c := range changes {
					heard <- fmt.Sprint(c.Settled, c.Approval.ID)
				}
			}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		defer func() {
			cancel()
			<-done
		}()
		w := f.Follow(store.Within("acme"), 0) // which makes it look
		defer w.Close()
		e.expect(w, "synced")
		early := e.ask()
		f.Look()
		e.expect(w, "opened "+early)
		wanted.Store(true)
		// A Feed reports from where its first look found the positions, which may be behind what is asked meanwhile.
		for begun := false; !begun; {
			e.ask()
			f.Look()
			select {
			case got := <-heard:
				begun = true
				if strings.HasSuffix(got, early) {
					t.Error("a change from before anybody wanted it")
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
		late := e.ask()
		f.Look()
		for got := ""; got != "false"+late; {
			got = <-heard
		}
		e.settle(late)
		f.Look()
		if got := <-heard; got != "true"+late {
			t.Error(got)
		}
	})
}

// next gives the next Steps of a Follower whose Feed does not run.
func (e *feedEnv) next(w *approval.Follower) []approval.Step {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	steps, err := w.Next(ctx)
	if err != nil {
		e.Fatal(err)
	}
	return steps
}

// synced splits the Steps of a beginning: what was opened, with its positions, and the end of it.
func (e *feedEnv) synced(steps []approval.Step) (opened []string, seqs []int64, end approval.Step) {
	e.Helper()
	if len(steps) == 0 || steps[len(steps)-1].Kind != approval.StepSynced {
		e.Fatalf("%d steps, and the last is no synced", len(steps))
	}
	for _, s := range steps[:len(steps)-1] {
		if s.Kind != approval.StepOpened {
			e.Errorf("step %+v", s)
		}
		opened, seqs = append(opened, s.Change.Approval.ID), append(seqs, s.Change.Seq)
	}
	return opened, seqs, steps[len(steps)-1]
}

// TestFeedOfManyPages: a follower is shown all that is open and all that has changed, however many pages that is, each
// with its position.
func TestFeedOfManyPages(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"exactly a page": store.MaxPageLimit, "more than a page": store.MaxPageLimit + 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := newFeedEnv(t, st)
			first := e.ask()
			ids := e.askMany(n)
			f := approval.NewFeed(approval.FeedConfig{Store: e.st})
			w := f.Follow(store.Within("acme"), 0)
			defer w.Close()
			opened, seqs, end := e.synced(e.next(w))
			slices.Sort(opened)
			if all := append([]string{first}, ids...); !slices.Equal(opened, all) || len(end.Open) != len(all) {
				t.Errorf("%d are shown and %d are listed, of %d", len(opened), len(end.Open), len(all))
			}
			if slices.Sort(seqs); seqs[0] == 0 || end.Seq != seqs[len(seqs)-1] {
				t.Errorf("positions from %d to %d, synced at %d", seqs[0], seqs[len(seqs)-1], end.Seq)
			}
			again := f.Follow(store.Within("acme"), seqs[0]) // behind the first that got a position
			defer again.Close()
			opened, seqs, end = e.synced(e.next(again))
			if len(opened) != n || !slices.IsSorted(seqs) || end.Seq != seqs[n-1] {
				t.Errorf("%d of %d are shown to a follower that comes back, synced at %d", len(opened), n, end.Seq)
			}
		})
	}
}

// TestFeedComesBack: a follower that comes back with the position of what it was shown last finds that in the list of what
// is open, and is not shown it again.
func TestFeedComesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(e *feedEnv) {
		f := approval.NewFeed(approval.FeedConfig{Store: e.st})
		id := e.ask()
		w := f.Follow(store.Within("acme"), 0)
		_, _, end := e.synced(e.next(w))
		w.Close()
		w = f.Follow(store.Within("acme"), end.Seq)
		defer w.Close()
		opened, _, end := e.synced(e.next(w))
		if len(opened) != 0 || len(end.Open) != 1 || end.Open[0].Approval.ID != id {
			e.Errorf("opened %v, and listed %+v", opened, end.Open)
		}
		later := e.ask()
		f.Reconcile("acme")
		if steps := e.next(w); len(steps) != 1 || steps[0].Kind != approval.StepOpened || steps[0].Change.Approval.ID != later {
			e.Errorf("after a comparison %+v, want %s opened", steps, later)
		}
	})
}

// TestNextFails: a read that fails is the caller's to know, who may close the stream or wait; the next call goes on. A
// ring for nothing ends no call.
func TestNextFails(t *testing.T) {
	t.Parallel()
	onBoth(t, func(e *feedEnv) {
		f := approval.NewFeed(approval.FeedConfig{Store: e.st})
		w := f.Follow(store.Within("acme"), 0)
		defer w.Close()
		e.synced(e.next(w))
		e.st.fail.Store(1)
		f.Reconcile("acme")
		if steps, err := w.Next(e.Context()); !errors.Is(err, errAway) || len(steps) != 0 {
			e.Errorf("while the store is away: %+v, %v", steps, err)
		}
		// The failure rings, so that the next call looks again. It finds nothing, and waits on.
		ctx, cancel := context.WithCancel(e.Context())
		defer cancel()
		e.st.listed = cancel
		if steps, err := w.Next(ctx); !errors.Is(err, context.Canceled) || len(steps) != 0 {
			e.Errorf("with nothing to show: %+v, %v", steps, err)
		}
		e.st.listed = nil
		id := e.ask()
		f.Reconcile("acme")
		if steps := e.next(w); len(steps) != 1 || steps[0].Change.Approval.ID != id {
			e.Errorf("after it: %+v", steps)
		}
	})
}

// TestFeedRests: a Feed without a follower, and without a page that watches, reads nothing however often it is rung.
func TestFeedRests(t *testing.T) {
	inBubble(t, func(e *feedEnv) {
		f := e.feed()
		for range 10 {
			e.ask()
			f.Look()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if n := e.st.reads.Load(); n != 0 {
			e.Errorf("%d reads", n)
		}
		w := f.Follow(store.Within("acme"), 0)
		defer w.Close()
		time.Sleep(time.Second)
		if e.st.reads.Load() == 0 {
			e.Error("none with a follower either")
		}
	})
}

// TestFeedCallsBack: a page that watches is called with all changes of a look, however many pages they are, and never
// with none. A look that fails is in the log, and loses none; one that does not fail is not in the log.
func TestFeedCallsBack(t *testing.T) {
	inBubble(t, func(e *feedEnv) {
		var log bytes.Buffer
		var calls, changes int
		f := e.feedOf(approval.FeedConfig{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Wanted: func() bool { return true },
			Changed: func(_ context.Context, some []store.ApprovalChange) {
				if calls++; len(some) == 0 {
					e.Error("called with no change")
				}
				changes += len(some)
			},
		})
		pause := func() { // a second holds any number of looks that are rung for, and no poll
			time.Sleep(time.Second)
			bubbletest.Wait()
		}
		f.Look()
		pause()
		if calls != 0 {
			e.Errorf("%d calls before any change", calls)
		}
		const many = store.MaxPageLimit + 100
		e.askMany(many)
		f.Look()
		time.Sleep(500 * time.Millisecond)
		bubbletest.Wait()
		if changes != many || log.Len() != 0 {
			e.Errorf("called with %d of %d changes; the log is %s", changes, many, &log)
		}
		e.st.fail.Store(1)
		e.ask()
		f.Look()
		time.Sleep(10 * time.Second)
		bubbletest.Wait()
		if n := strings.Count(log.String(), "could not look"); changes != many+1 || n != 1 {
			e.Errorf("called with %d of %d changes, and %d failures are in the log", changes, many+1, n)
		}
	})
}

// TestFeedCompares: a delegation that runs out changes no Approval, and its delegate is shown within half a minute and a
// poll that the question is gone. The whole list is read for that every half minute, not at every look.
func TestFeedCompares(t *testing.T) {
	inBubble(t, func(e *feedEnv) {
		now, id := time.Now(), e.ask()
		e.tx(func(tx store.Tx) error {
			return tx.InsertDelegation(e.Context(), store.Delegation{
				ID: uuid.NewString(), Tenant: "acme", User: "alice", To: "bob", CreatedAt: now, ExpiresAt: now.Add(5 * time.Minute),
			})
		})
		w := e.feed().Follow(store.Deciding(store.Principal{Tenant: "acme", User: "bob"}), 0)
		defer w.Close()
		e.expect(w, "opened "+id, "synced")
		e.st.lists.Store(0)
		ctx, cancel := context.WithTimeout(e.Context(), 10*time.Minute)
		defer cancel()
		steps, err := w.Next(ctx)
		if err != nil || len(steps) != 1 || steps[0].Kind != approval.StepGone || steps[0].ID != id {
			e.Fatalf("%+v, %v", steps, err)
		}
		if after := time.Since(now) - 5*time.Minute; after < 0 || after > 32*time.Second {
			e.Errorf("gone %s after its end", after)
		}
		if n := e.st.lists.Load(); n < 8 || n > 11 {
			e.Errorf("the list was read %d times", n)
		}
	})
}
