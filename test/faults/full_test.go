package faults_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// diskSize is the size of a small disk, in MiB. It holds a database with a few threads, its log and its reserve.
const diskSize = 160

// disk is a small disk, which ends with the test or with this process, however that ends. It is mounted where only its keeper
// sees it, so that no mount outlives the keeper. Programs that use it are started beside the keeper by enter. The test itself
// reaches its files through seen.
type disk struct {
	dir, seen string
	enter     []string
}

func newDisk(t testing.TB) disk {
	t.Helper()
	at := t.TempDir()
	keeper := exec.Command("sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0700 none %q && echo ready && cat", diskSize, at))
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // an ordinary user is root in a namespace of users
		keeper.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		keeper.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		keeper.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	alive, err := keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	keeper.Stderr = os.Stderr
	if err := keeper.Start(); err != nil {
		t.Fatalf("a disk of the test's own needs root, or namespaces of users: %v", err)
	}
	t.Cleanup(func() {
		_ = alive.Close()
		_ = keeper.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal("a disk of the test's own needs root, or namespaces of users: the mount was refused")
	}
	pid := strconv.Itoa(keeper.Process.Pid)
	d := disk{dir: at, seen: "/proc/" + pid + "/root" + at, enter: []string{"nsenter", "--target", pid, "--mount"}}
	if os.Geteuid() != 0 {
		d.enter = append(d.enter, "--user", "--preserve-credentials")
	}
	return d
}

// fill writes a file until the disk of dir is full.
func fill(t testing.TB, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		n, err := f.Write(block)
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if n < len(block) {
			block = block[:n/2]
		}
	}
	return path
}

// refusal is the status, code and detail of a response. The body of any other response is not read: it may be a stream.
func (s *server) refusal(method, path string, body []byte) (status int, code, detail string) {
	s.t.Helper()
	resp, err := s.do(s.t.Context(), method, path, body)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log())
	}
	defer resp.Body.Close()
	var p struct{ Code, Detail, Status any }
	if resp.StatusCode >= 400 {
		raw, _ := io.ReadAll(resp.Body)
		_ = json.Unmarshal(raw, &p)
	}
	if p.Code == nil {
		p.Code = p.Status // of /readyz
	}
	return resp.StatusCode, fmt.Sprint(p.Code), fmt.Sprint(p.Detail)
}

// until asks until the response has the status.
func (s *server) until(status int, method, path string) (code string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, code, detail := s.refusal(method, path, nil)
		if got == status {
			return code
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s %s: HTTP %d %s %s, and not %d\n%s", method, path, got, code, detail, status, s.log())
		}
	}
}

// TestDeleteOnFullDisk: the disk of a SQLite database is full and the server takes no messages. Deleting a thread works, and
// frees the room that the server goes on with; also where Runs were under way, and after a restart on the full disk.
func TestDeleteOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]func(h *serverEnv){
		"at rest": func(*serverEnv) {},
		"restarted": func(h *serverEnv) {
			h.kill()
			h.start(program.Shipped)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := newDisk(t)
			h := &serverEnv{t: t, database: "sqlite:" + filepath.Join(small.dir, "aqueduct.db"), agent: newAgent(t), enter: small.enter}
			h.start(program.Shipped)
			for i := range 4 {
				if _, err := newLedger(t, fmt.Sprint("old", i), 300).post(h.server, fmt.Sprint("r", i), "bulk 300"); err != nil {
					t.Fatal(err)
				}
			}
			filler := fill(t, small.seen)
			long, err := h.chat("long", "long-r", "bulk 2000 2ms") // it fills what SQLite's log has left
			if err != nil {
				t.Fatal(err)
			}
			defer long.close()
			for code := ""; code != "storage_full"; { // a busy disk may be storage_unavailable before
				code = h.until(503, "GET", "/readyz")
			}
			// A few rows may still fit into SQLite's log, which begins anew when its pages were written back.
			status, code, detail := 200, "", ""
			for i := 0; status == 200 && i < 1000; i++ {
				status, code, detail = h.refusal("POST", "/api/agui/chat", prompt(fmt.Sprint("new", i), "new-r", "count 1"))
			}
			if status != 503 || code != "storage_full" || !strings.Contains(detail, "elete") {
				t.Errorf("a prompt: HTTP %d %s %s", status, code, detail)
			}
			during(h)
			if status, code, detail := h.refusal("DELETE", "/api/threads/old0", nil); status != 204 {
				t.Fatalf("the deletion: HTTP %d %s %s\n%s", status, code, detail, h.log())
			}
			h.until(200, "GET", "/readyz")
			if status, code, detail := h.refusal("DELETE", "/api/threads/long", nil); status != 204 {
				t.Fatalf("the deletion of the thread that was under way: HTTP %d %s %s\n%s", status, code, detail, h.log())
			}
			if _, err := newLedger(t, "after", 10).post(h.server, "after-r", "count 10"); err != nil {
				t.Fatal(err)
			}
			if _, run := h.settled(t, "after"); run.Status != "FINISHED" {
				t.Errorf("the next Run is %s", run.Status)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				var is syscall.Stat_t
				if err := syscall.Stat(filepath.Join(small.seen, "aqueduct.db.reserve"), &is); err == nil && is.Blocks*512 >= 8<<20 {
					break
				} else if time.Now().After(end) {
					t.Fatalf("there is room again and no reserve: %v, %d blocks", err, is.Blocks)
				}
			}
		})
	}
}

// TestDeleteOnFullPostgres: PostgreSQL has no room (53100). The refusal of a deletion says what to do, and the thread is
// deleted when there is room.
func TestDeleteOnFullPostgres(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	h := newServerEnv(t, dsn)
	if _, err := newLedger(t, "T", 10).post(h.server, "r", "count 10"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file "base/16384/2619": No space left on device' USING ERRCODE = '53100'; END $$`)
	exec("CREATE TRIGGER full_disk BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION full_disk()")
	exec("CREATE TRIGGER full_disk BEFORE UPDATE ON pings FOR EACH ROW EXECUTE FUNCTION full_disk()")
	status, code, detail := h.refusal("DELETE", "/api/threads/T", nil)
	if status != 503 || code != "storage_full" || !strings.Contains(detail, "disk") || !strings.Contains(detail, "again") {
		t.Errorf("HTTP %d %s %q", status, code, detail)
	}
	if code := h.until(503, "GET", "/readyz"); code != "storage_full" {
		t.Errorf("not ready: %s", code)
	}
	exec("DROP TRIGGER full_disk ON sessions")
	exec("DROP TRIGGER full_disk ON pings")
	h.until(200, "GET", "/readyz")
	if status, code, detail := h.refusal("DELETE", "/api/threads/T", nil); status != 204 {
		t.Errorf("with room: HTTP %d %s %q", status, code, detail)
	}
}
