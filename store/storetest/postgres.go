package storetest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"aqueduct/migrations"
)

// Postgres is the DSN of an empty, migrated database of the test's own, on a server
// this test process has started for itself and which ends with the process, however it
// ends. A machine without PostgreSQL fails the test: a contract that was not tried on
// it is not known to hold.
//
// "go test -short", which only "make check" passes, skips the test. AQUEDUCT_TEST_ALL=1, which "make test" sets, makes
// that a failure, so that a -short that leaked into CI (by GOFLAGS) cannot pass for the whole suite.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	if testing.Short() {
		if os.Getenv("AQUEDUCT_TEST_ALL") != "" {
			t.Fatal("storetest: -short would leave PostgreSQL out of a run of all tests")
		}
		t.Skip("PostgreSQL is left out by -short")
	}
	srv, err := server()
	if err != nil {
		t.Fatalf("storetest: PostgreSQL is needed: %v", err)
	}
	name, err := srv.create()
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		if err := srv.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	return srv.dsn(name)
}

// create makes a database by copying the template, and returns its name.
func (p *postgres) create() (name string, err error) {
	name = fmt.Sprintf("test_%d", p.databases.Add(1))
	return name, p.exec("CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY")
}

// template is the database every other is copied from, migrated once.
const template = "aqueduct_template"

// server starts the one server of this process that tests share, on first use.
var server = sync.OnceValues(func() (*postgres, error) {
	p, err := startPostgres()
	if err == nil {
		started.Store(true)
	}
	return p, err
})

// started reports whether there is a server, for callers that would not start one.
var started atomic.Bool

// postgres is a running server, reached through a socket in dir.
type postgres struct {
	dir       string
	bin       string              // the directory of pg_ctl
	as        *syscall.Credential // the user that the server runs as; nil is this process's
	alive     *os.File            // our end of the pipe whose closing ends the server
	databases atomic.Int64
}

// keeper runs beside this process as the server's owner. The parent's end of its input
// closes when the parent ends, even by SIGKILL; then it stops the server and removes
// every trace. It ignores what a terminal sends, for the parent's end is what counts.
const keeper = `trap '' INT HUP TERM
stop() { "$BIN/pg_ctl" -D "$DIR/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$DIR"; }
{ "$BIN/initdb" -D "$DIR/data" -U aqueduct -A trust -E UTF8 --locale=C -N &&
"$BIN/pg_ctl" -D "$DIR/data" -l "$DIR/server.log" -w -o "$SETTINGS" start; } >"$DIR/start.log" 2>&1 ||
	{ cat "$DIR/start.log" "$DIR/server.log" 2>/dev/null | tail -n 20; stop; exit 1; }
echo ready
cat >/dev/null
stop
`

// settings: a socket in the directory and no port, so that servers of several test
// processes never meet. What is lost when the machine fails is no concern of a test,
// except where it measures: AQUEDUCT_TEST_FSYNC=on.
func settings(dir string) string {
	fsync := "off"
	if os.Getenv("AQUEDUCT_TEST_FSYNC") == "on" {
		fsync = "on"
	}
	return "-k " + dir + " -c listen_addresses='' -c max_connections=200 -c fsync=" + fsync
}

func startPostgres() (*postgres, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(clusterRoot(), "aqpg") // short: a socket's path may have 107 bytes
	if err != nil {
		return nil, err
	}
	as, err := ordinaryUser(dir)
	if err != nil {
		return nil, err
	}
	theirs, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer closeAll(theirs, out, said)
	cmd := exec.Command("/bin/sh", "-c", keeper)
	cmd.Dir, cmd.Stdin, cmd.Stdout = dir, theirs, said
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BIN=" + bin, "DIR=" + dir, "SETTINGS=" + settings(dir)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = said.Close() // ours; so that reading ends when the keeper does
	if err := ready(out); err != nil {
		return nil, err
	}
	p := &postgres{dir: dir, bin: bin, as: as, alive: alive}
	return p, p.migrate()
}

const (
	memoryRoot = "/dev/shm"
	// memoryLeast is what has to be free there: a hundred databases of 8 MB, their log, and as much for servers of other
	// test processes.
	memoryLeast = 4 << 30
)

// clusterRoot is where the server's directory is made: in memory where there is room, since each test has a database of
// its own and 300 new files take ext4 ten times as long as tmpfs; on disk where AQUEDUCT_TEST_FSYNC measures the disk.
func clusterRoot() string {
	var fs syscall.Statfs_t
	if os.Getenv("AQUEDUCT_TEST_FSYNC") != "on" && syscall.Statfs(memoryRoot, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryLeast {
		return memoryRoot
	}
	return "/tmp"
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes; a second close changes nothing
	}
}

// ready waits for the keeper's "ready"; anything else it writes is the error.
func ready(out *os.File) error {
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			return nil
		}
		said = append(said, lines.Text())
	}
	return errors.New(strings.Join(append([]string{"it does not start"}, said...), "\n"))
}

// ordinaryUser is whom the server runs as: itself it refuses to run as root.
func ordinaryUser(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, errU := strconv.Atoi(who.Uid)
	gid, errG := strconv.Atoi(who.Gid)
	if err := errors.Join(errU, errG, os.Chown(dir, uid, gid)); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// binaries is the directory of initdb and pg_ctl. Debian keeps them off the PATH, one
// directory a version; the newest is taken.
func binaries() (string, error) {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	versions, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	for _, dir := range append(dirs, versions...) {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no initdb, neither where pg_config points nor in /usr/lib/postgresql/*/bin")
}

func (p *postgres) dsn(database string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: url.Values{
		"host": {p.dir}, "user": {"aqueduct"}}.Encode()}
	return u.String()
}

// exec runs one statement outside of any test's database.
func (p *postgres) exec(statement string) error {
	db, err := sql.Open("pgx", p.dsn("postgres"))
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

func (p *postgres) migrate() error {
	if err := p.exec("CREATE DATABASE " + template); err != nil {
		return err
	}
	db, err := sql.Open("pgx", p.dsn(template))
	if err != nil {
		return err
	}
	m, err := migrations.Postgres(db)
	if err == nil {
		_, err = m.Up(context.Background())
	}
	return errors.Join(err, db.Close())
}
