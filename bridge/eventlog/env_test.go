package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/store"
	"aqueduct/store/broker/local"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logEnv is a Log over a store whose commits a test can hold, break and count.
type logEnv struct {
	t       *testing.T
	db      *sluice
	log     *Log
	bell    *Bell
	replica string
	ended   chan error // what Log.Run returned
	stop    context.CancelFunc
}

// onBoth runs a test on a database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
		test(t, opened(t, st, err))
	})
	t.Run("postgres", func(t *testing.T) {
		st, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{MaxConns: 4})
		test(t, opened(t, st, err))
	})
}

func opened(t *testing.T, st store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// newLogEnv starts a Log over a store.
func newLogEnv(t *testing.T, st store.Store) *logEnv {
	t.Helper()
	env := &logEnv{t: t, db: &sluice{Store: st}, replica: uuid.NewString(), ended: make(chan error, 1)}
	if err := st.Register(t.Context(), store.Replica{ID: env.replica, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	env.bell = NewBell(local.New())
	env.log = New(Config{Store: env.db, Bell: env.bell, Replica: env.replica, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		env.ended <- env.log.Run(ctx)
	}()
	env.stop = func() { cancel(); <-ran }
	t.Cleanup(env.stop)
	return env
}

// session makes a Session and its Writer.
func (env *logEnv) session() *Writer {
	env.t.Helper()
	id, now := uuid.NewString(), time.UnixMilli(1)
	env.ok(env.db.InTx(env.t.Context(), func(tx store.Tx) error {
		return tx.InsertSession(env.t.Context(), store.Session{ID: id, Tenant: "t", User: "u", ExternalID: id, AgentID: "a", CreatedAt: now, UpdatedAt: now})
	}))
	return env.open(id)
}

func (env *logEnv) open(sessionID string) *Writer {
	env.t.Helper()
	writer, err := env.log.Open(env.t.Context(), sessionID)
	env.ok(err)
	return writer
}

func (env *logEnv) ok(err error) {
	env.t.Helper()
	if err != nil {
		env.t.Fatal(err)
	}
}

func (env *logEnv) is(got, want error) {
	env.t.Helper()
	if !errors.Is(got, want) {
		env.t.Fatalf("error %v, want %v", got, want)
	}
}

// events are n events that say their position, after the given one.
func events(after int64, n int) Entry {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"type":"CUSTOM","value":%d}`, after+int64(i)+1)
	}
	return Entry{Events: []byte(strings.Join(all, "\n")), N: n}
}

func (env *logEnv) put(to *Writer, n int) {
	env.t.Helper()
	env.ok(to.Put(env.t.Context(), events(to.Last(), n)))
}

func (env *logEnv) keep(to *Writer, n int, moves ...store.Move) ([]int, error) {
	e := events(to.Last(), n)
	e.Moves = moves
	return to.Keep(env.t.Context(), e)
}

// kept is the whole log of a Session as the store has it.
func (env *logEnv) kept(sessionID string) []string {
	env.t.Helper()
	rows, err := env.db.Store.Events(env.t.Context(), store.System(), sessionID, 0, 1<<30)
	env.ok(err)
	return texts(rows)
}

func texts(rows []store.EventRow) []string {
	var all []string
	Each(rows, func(seq int64, event []byte) bool {
		all = append(all, fmt.Sprintf("%d %s", seq, event))
		return true
	})
	return all
}

// upTo is the log of n events.
func upTo(n int) []string { return between(0, n) }

// between is what a tail after a position of a log of n events sees.
func between(after, n int) []string {
	var all []string
	for seq := after + 1; seq <= n; seq++ {
		all = append(all, fmt.Sprintf(`%d {"type":"CUSTOM","value":%d}`, seq, seq))
	}
	return all
}

func (env *logEnv) same(got, want []string) {
	env.t.Helper()
	if !slices.Equal(got, want) {
		env.t.Fatalf("got  %d: %.2000v\nwant %d: %.2000v", len(got), got, len(want), want)
	}
}

// sluice is a store whose commits a test stands in the way of.
type sluice struct {
	store.Store
	mu      sync.Mutex
	commit  func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error)
	batches []store.Batch // asked for, in order
	reads   int           // of events
}

type commitFunc func(context.Context, *store.Batch) (store.Result, error)

// by sets what stands in the way.
func (s *sluice) by(fn func(context.Context, *store.Batch, commitFunc) (store.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = fn
}

func (s *sluice) Commit(ctx context.Context, b *store.Batch) (store.Result, error) {
	s.mu.Lock()
	s.batches = append(s.batches, *b)
	commit := s.commit
	s.mu.Unlock()
	if commit == nil {
		return s.Store.Commit(ctx, b)
	}
	return commit(ctx, b, s.Store.Commit)
}

func (s *sluice) Events(ctx context.Context, in store.Scope, sessionID string, after int64, maxBytes int) ([]store.EventRow, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	return s.Store.Events(ctx, in, sessionID, after, maxBytes)
}

func (s *sluice) asked() []store.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *sluice) readsOfEvents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// shut holds the next commit until open is called; what is appended meanwhile is the
// Batch after it. held is closed when that commit has come.
func (s *sluice) shut(t *testing.T) (held <-chan struct{}, open func()) {
	come, gate := make(chan struct{}), make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // so that a test which fails ends
	var once sync.Once
	s.by(func(ctx context.Context, b *store.Batch, pass commitFunc) (store.Result, error) {
		once.Do(func() { close(come); <-gate })
		return pass(ctx, b)
	})
	return come, open
}
