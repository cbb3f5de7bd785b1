package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// holderEnv makes this test binary the process that holds the file it names.
const holderEnv = "AQUEDUCT_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

// hold opens the database, reports it, and waits to be killed.
func hold(path string) {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{LockWait: -1})
	if err != nil {
		panic(err)
	}
	if err := s.Register(context.Background(), store.Replica{ID: "held", Name: "one"}); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("held\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the end of its parent, if that comes first
}

func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	return cmd
}

// One process has the file; a second is refused, and gets it when the first is killed. The
// first is fenced then, whatever the second is called.
func TestLockedByAnotherProcess(t *testing.T) {
	path := storetest.SQLite(t)
	first := holder(t, path)
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{LockWait: -1}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("error %v", err)
	}
	killed := make(chan error, 1)
	go func() { killed <- first.Process.Kill() }()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{LockWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-killed, s.Register(t.Context(), store.Replica{ID: "next", Name: "two"})); err != nil {
		t.Error(err)
	}
	if err := s.Beat(t.Context(), "held"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the predecessor is not fenced: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The wait for the lock ends with the caller, and with Close of the one before.
func TestLockedInOneProcess(t *testing.T) {
	path := storetest.SQLite(t)
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := sqlite.Open(ended, path, sqlite.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := sqlite.Open(t.Context(), path, sqlite.Options{LockWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
