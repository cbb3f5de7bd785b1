package inbox_test

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

	"aqueduct/bridge/inbox"
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

// desk is a store with a Session of alice's, and feeds that follow it.
type desk struct {
	*testing.T
	st      *shaky
	session string
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(*desk)) {
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
			d := &desk{T: t, st: &shaky{Store: st}, session: uuid.NewString()}
			now := time.UnixMilli(1)
			d.tx(func(tx store.Tx) error {
				return tx.InsertSession(t.Context(), store.Session{ID: d.session, Tenant: "acme", User: "alice", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now})
			})
			test(d)
		})
	}
}

func (d *desk) tx(fn func(store.Tx) error) {
	d.Helper()
	if err := d.st.InTx(d.Context(), fn); err != nil {
		d.Fatal(err)
	}
}

// feed runs one until the test ends.
func (d *desk) feed() *inbox.Feed {
	f := inbox.NewFeed(inbox.FeedConfig{Store: d.st, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	d.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (d *desk) ask() string {
	d.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	d.tx(func(tx store.Tx) error {
		return tx.InsertApproval(d.Context(), store.Approval{ID: id, SessionID: d.session, TurnID: "t", Kind: store.ApprovalPermission,
			Status: store.ApprovalPending, CreatedAt: time.UnixMilli(1)})
	})
	return id
}

func (d *desk) settle(id string) {
	d.Helper()
	d.tx(func(tx store.Tx) error {
		_, err := tx.MoveApproval(d.Context(), store.ApprovalMove{ID: id, To: store.ApprovalApproved, DecidedAt: time.UnixMilli(2)})
		return err
	})
}

// expect reads steps until as many came as are wanted, trying again after errors.
func (d *desk) expect(w *inbox.Follower, want ...string) (last int64) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 20*time.Second)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		steps, err := w.Next(ctx)
		if err != nil && !errors.Is(err, errAway) {
			d.Fatalf("%v after %v, want %v", err, got, want)
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
		d.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return last
}

// TestFeedLosesNothing: whatever read fails, and whenever the follower was away, it is given
// every step once.
func TestFeedLosesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		f := d.feed()
		first := d.ask()
		d.st.fail.Store(2)
		w := f.Follow(store.Deciding(store.Principal{Tenant: "acme", User: "alice"}), 0)
		last := d.expect(w, "opened "+first, "synced")
		second := d.ask()
		f.Look()
		last = max(last, d.expect(w, "opened "+second))
		d.st.fail.Store(1)
		d.settle(first)
		f.Look()
		last = max(last, d.expect(w, "settled "+first))
		w.Close()
		third := d.ask()
		d.settle(second)
		d.st.fail.Store(2)
		w = f.Follow(store.Within("acme"), last)
		defer w.Close()
		d.expect(w, "opened "+third, "settled "+second, "synced")
		d.tx(func(tx store.Tx) error { return tx.DeleteSession(d.Context(), d.session, time.UnixMilli(9)) })
		d.st.fail.Store(1)
		f.LookAgain("acme")
		d.expect(w, "gone "+third)
	})
}

// TestFeedOfAnotherReplica: what another replica gave a position to is found without a ring.
func TestFeedOfAnotherReplica(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		here, there := d.feed(), d.feed()
		w, other := here.Follow(store.Within("acme"), 0), there.Follow(store.Within("acme"), 0)
		defer w.Close()
		defer other.Close()
		d.expect(w, "synced")
		d.expect(other, "synced")
		id := d.ask()
		there.Look()
		d.expect(other, "opened "+id)
		d.expect(w, "opened "+id) // within a poll
	})
}

// TestFeedTellsWhoWatches: a feed that is wanted calls back with every change, and not with
// those of a time in which it was not.
func TestFeedTellsWhoWatches(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		var wanted atomic.Bool
		heard := make(chan string, 16)
		f := inbox.NewFeed(inbox.FeedConfig{Store: d.st, Logger: slog.New(slog.DiscardHandler), Wanted: wanted.Load,
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
		d.expect(w, "synced")
		early := d.ask()
		f.Look()
		d.expect(w, "opened "+early)
		wanted.Store(true)
		// A Feed reports from where its first look found the positions, which may be behind what is asked meanwhile.
		for begun := false; !begun; {
			d.ask()
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
		late := d.ask()
		f.Look()
		for got := ""; got != "false"+late; {
			got = <-heard
		}
		d.settle(late)
		f.Look()
		if got := <-heard; got != "true"+late {
			t.Error(got)
		}
	})
}
