package approval_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

var errAway = errors.New("away")

// shaky is a store whose reads of Approvals fail as often as a test wants.
type shaky struct {
	store.Store
	fail atomic.Int64
}

func (s *shaky) down() bool { return s.fail.Add(-1) >= 0 }

func (s *shaky) ApprovalChanges(ctx context.Context, in store.Scope, after int64, limit int) ([]store.ApprovalChange, error) {
	if s.down() {
		return nil, errAway
	}
	return s.Store.ApprovalChanges(ctx, in, after, limit)
}

func (s *shaky) OpenApprovals(ctx context.Context, in store.Scope, page store.Page) ([]store.ApprovalChange, error) {
	if s.down() {
		return nil, errAway
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
			test(e)
		})
	}
}

func (e *feedEnv) tx(fn func(store.Tx) error) {
	e.Helper()
	if err := e.st.InTx(e.Context(), fn); err != nil {
		e.Fatal(err)
	}
}

// feed runs one until the test ends.
func (e *feedEnv) feed() *approval.Feed {
	f := approval.NewFeed(approval.FeedConfig{Store: e.st, Logger: slog.New(slog.DiscardHandler)})
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
	id := uuid.Must(uuid.NewV7()).String()
	e.tx(func(tx store.Tx) error {
		return tx.InsertApproval(e.Context(), store.Approval{ID: id, SessionID: e.session, TurnID: "t", Kind: store.ApprovalPermission,
			Status: store.ApprovalPending, CreatedAt: time.UnixMilli(1)})
	})
	return id
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
