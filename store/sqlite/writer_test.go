package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

func openIn(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "a b?c%20#d.db"), Options{}) // a name that tries the DSN
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Register(t.Context(), store.Replica{ID: "r", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func event(seq int64, size int) *store.Batch {
	return &store.Batch{Replica: "r", Events: []store.EventRow{{SessionID: "s", LastSeq: seq, N: 1, Data: make([]byte, size)}}}
}

// What every connection is set to: an append is on the disk when Commit returns.
func TestSettings(t *testing.T) {
	s := openIn(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		rows, err := s.writer.q.QueryContext(t.Context(), "PRAGMA "+pragma)
		if err != nil {
			t.Fatal(err)
		}
		var is string
		for rows.Next() {
			err = rows.Scan(&is)
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil || is != want {
			t.Errorf("%s is %s, want %s (%v)", pragma, is, want, err)
		}
	}
	if _, err := s.readDB.ExecContext(t.Context(), "DELETE FROM replicas"); err == nil {
		t.Error("a reader can write")
	}
	files, err := filepath.Glob(filepath.Dir(mainFile(t, s)) + "/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", f, info.Mode(), err)
		}
	}
}

func mainFile(t *testing.T, s *Store) string {
	t.Helper()
	var path string
	if err := s.readDB.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Those who wait to write are served in the order they came.
func TestWritersInOrder(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := openIn(t)
		var served []int
		leave := make(chan struct{})
		write := func(fn func()) {
			if err := s.InTx(context.Background(), func(store.Tx) error { fn(); return nil }); err != nil {
				t.Error(err)
			}
		}
		go write(func() { <-leave })
		for i := range 20 {
			bubbletest.Wait() // those that came before stand in the queue
			go write(func() { served = append(served, i) })
		}
		bubbletest.Wait()
		close(leave)
		bubbletest.Wait()
		if !slices.IsSorted(served) || len(served) != 20 {
			t.Errorf("served %v", served)
		}
	})
}

// A caller that leaves while it waits has written nothing.
func TestWaitEndsWithCaller(t *testing.T) {
	s := openIn(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := s.InTx(context.Background(), func(store.Tx) error {
		cancel()
		_, err := s.Commit(ctx, event(1, 10))
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// A full disk is unavailability: nothing of the Batch is kept, and once there is room
// the same Batch goes through.
func TestDiskFull(t *testing.T) {
	s := openIn(t)
	limit := func(pages string) {
		t.Helper()
		if _, err := s.writer.q.ExecContext(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // no less than what there is
	b := event(1, 1<<20)
	for range 2 {
		if _, err := s.Commit(t.Context(), b); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
	}
	limit("1000000")
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// A closed store returns an error that names it, and Close may be called again.
func TestClosed(t *testing.T) {
	s := openIn(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), event(1, 1)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Ping: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
