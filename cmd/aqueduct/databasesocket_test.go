package main

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aqueduct/internal/child"
	"aqueduct/store/storetest"
)

// TestS56DatabaseSocket: a start whose agents could open the database by its UNIX socket is refused where they have the
// server's account, and is logged otherwise.
func TestS56DatabaseSocket(t *testing.T) {
	if !child.LandlockWorks() {
		t.Fatal("this kernel has no Landlock")
	}
	root := t.TempDir()
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	work, data := filepath.Join(root, "work"), filepath.Join(root, "state")
	if err := errors.Join(os.Mkdir(work, 0o777), os.Chmod(work, 0o777), os.Mkdir(data, 0o700), os.Mkdir(filepath.Join(root, "tmp"), 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(root, "tmp"))
	args := func(more ...string) []string {
		return append([]string{"--state", data, "--acp", "code=true", "--acp-cwd", work}, more...)
	}
	database := storetest.Postgres(t) // by a socket, which trusts every account
	err := startError(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args("--database", database)...))
	if err == nil || !strings.Contains(err.Error(), ".s.PGSQL.") || !strings.Contains(err.Error(), "--acp-user") {
		t.Errorf("%v", err)
	}
	said := map[string][]string{"unconfined": {"--unconfined"}}
	if os.Geteuid() == 0 {
		said["another account"] = []string{"--acp-user", "nobody"}
	}
	for name, flags := range said {
		r := start(t, args(append(flags, "--database", database)...)...)
		sockets := databaseFlag(database).sockets()
		expected := true
		if name != "unconfined" {
			u, err := child.LookupUser("nobody")
			if err != nil {
				t.Fatal(err)
			}
			expected = opens(u, sockets[0])
		}
		if logged := strings.Contains(r.log.String(), "can open the socket of the database"); logged != expected {
			t.Errorf("%s: said %t, want %t", name, logged, expected)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestS56Sockets: which databases are reached by a socket, and which accounts can open one.
func TestS56Sockets(t *testing.T) {
	t.Setenv("PGHOST", "/run/there")
	t.Setenv("PGPORT", "5433")
	for url, want := range map[databaseFlag][]string{
		"sqlite:/x.db": nil, "postgres://u@db.example/a": nil, "postgres://127.0.0.1:5432/a": nil,
		"postgres:///a?host=/run/here&port=7": {"/run/here/.s.PGSQL.7"}, "postgres://%2Frun%2Fhere:7/a": {"/run/here/.s.PGSQL.7"},
		"postgres:///a": {"/run/there/.s.PGSQL.5433"}, "postgresql:///a?host=db.example,/run/here&port=1,2": {"/run/here/.s.PGSQL.2"},
	} {
		// A host is tried with and without TLS, by a socket once.
		if got := slices.Compact(url.sockets()); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", string(url), got, want)
		}
	}
	dir := t.TempDir()
	for above := dir; above != "/" && above != os.TempDir(); above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(socket, 0o600); err != nil { // its mode counts like a socket's
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	stranger := &child.User{Name: "not " + me.Username, UID: 54321, GID: 54321}
	for _, c := range []struct {
		socket, folder os.FileMode
		opens          bool
	}{{0o600, 0o755, false}, {0o777, 0o755, true}, {0o777, 0o700, false}, {0o660, 0o755, false}} {
		if err := errors.Join(os.Chmod(socket, c.socket), os.Chmod(dir, c.folder)); err != nil {
			t.Fatal(err)
		}
		if got := opens(stranger, socket); got != c.opens {
			t.Errorf("%o in %o: %t", c.socket, c.folder, got)
		}
	}
}
