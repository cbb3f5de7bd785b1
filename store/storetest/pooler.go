package storetest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Bouncer is PgBouncer before the server of this test process. It is started again when it dies, as where it is a service:
// Debian's ends itself now and then when a client is killed that has just cancelled a query (pgbouncer/pgbouncer#801).
type Bouncer struct {
	t   testing.TB
	dir string
}

// Through is a DSN that leads through it.
func (b *Bouncer) Through(dsn string) string {
	b.t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", b.dir)
	q.Set("port", "6432")
	u.RawQuery = q.Encode()
	return u.String()
}

// Await returns when it takes connections.
func (b *Bouncer) Await() {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", filepath.Join(b.dir, ".s.PGSQL.6432"))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("storetest: PgBouncer does not start: %v", err)
		}
	}
}

// Pooler starts PgBouncer in transaction mode. Few connections serve all clients, so that two transactions of one client seldom
// share one. ignored are start-up parameters that it drops instead of refusing them.
func Pooler(t testing.TB, ignored ...string) *Bouncer {
	t.Helper()
	srv, err := server()
	if err != nil {
		t.Fatalf("storetest: PostgreSQL is needed: %v", err)
	}
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil { // which is not on everybody's PATH
			t.Fatalf("storetest: PgBouncer is needed (scripts/need-pgbouncer): %v", err)
		}
	}
	dir, err := os.MkdirTemp("/tmp", "aqpb") // short: a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ini := filepath.Join(dir, "pgbouncer.ini")
	config := fmt.Sprintf("[databases]\n* = host=%s user=aqueduct\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = %s\nauth_type = any\n"+
		"pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\nignore_startup_parameters = extra_float_digits%s\n",
		srv.dir, dir, strings.Join(append([]string{""}, ignored...), ","))
	if err := os.WriteFile(ini, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	as, err := ordinaryUser(dir)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	// As the server, it ends with our end of its keeper's input, however we end.
	cmd := exec.Command("/bin/sh", "-c", `trap '' INT HUP TERM
(trap 'kill -9 $!; exit' USR1; while :; do "$BOUNCER" "$INI" & wait $!; sleep 0.05; done) &
cat >/dev/null; kill -USR1 $!; wait $!`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BOUNCER=" + path, "INI=" + ini}
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second // its output is held open by what it may leave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	alive, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = alive.Close()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("PgBouncer said:\n%s", said.String())
		}
	})
	b := &Bouncer{t: t, dir: dir}
	b.Await()
	return b
}
