package storetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a PostgreSQL server of one test's own, which the test stops, kills and freezes.
type Server struct {
	t  testing.TB
	pg *postgres
	// DSN names an empty, migrated database of it. It stays the same over restarts.
	DSN string
}

// NewServer starts a server. It ends with the test, or with this process, however that ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	pg, err := startPostgres()
	if err != nil {
		t.Fatalf("storetest: PostgreSQL is needed: %v", err)
	}
	t.Cleanup(func() { _ = pg.alive.Close() }) // the keeper stops the server and removes its folder
	name, err := pg.create()
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return &Server{t: t, pg: pg, DSN: pg.dsn(name)}
}

// startWithin is how long Start tries: children of a killed server may hold its shared memory for a moment.
const startWithin = 30 * time.Second

// Stop stops the server in one of pg_ctl's modes: "fast" or "immediate".
func (s *Server) Stop(mode string) {
	s.t.Helper()
	if out, err := s.control("-m", mode, "stop"); err != nil {
		s.t.Errorf("storetest: pg_ctl stop: %v\n%s", err, out)
	}
}

// Start starts a server that was stopped or killed.
func (s *Server) Start() {
	s.t.Helper()
	for late := time.Now().Add(startWithin); ; {
		out, err := s.control("-l", filepath.Join(s.pg.dir, "server.log"), "-o", settings(s.pg.dir), "start")
		if err == nil {
			return
		}
		if time.Now().After(late) {
			s.t.Errorf("storetest: pg_ctl start: %v\n%s", err, out)
			return
		}
	}
}

// Kill kills the server's first process, after which all others end.
func (s *Server) Kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL, s.processes()[:1]...)
}

// Freeze stops all processes of the server where they are, until Thaw. The first process is stopped before the others are
// listed, so that it starts none in between.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP, s.processes()[0])
	s.signal(syscall.SIGSTOP, s.processes()...)
}

// Thaw lets the processes of a frozen server continue.
func (s *Server) Thaw() {
	s.t.Helper()
	s.signal(syscall.SIGCONT, s.processes()...)
}

func (s *Server) control(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(s.pg.bin, "pg_ctl"), append([]string{"-D", filepath.Join(s.pg.dir, "data"), "-w"}, args...)...)
	cmd.Dir = s.pg.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.pg.as}
	var out bytes.Buffer
	cmd.Stdout = &out // a file of the child's own would be held open by the server that it starts
	err := cmd.Run()
	return out.String(), err
}

// processes are the ids of the server's first process and of its children.
func (s *Server) processes() []int {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.pg.dir, "data", "postmaster.pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	first, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatal(err)
	}
	all := []int{first}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, stat := range stats {
		raw, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name in parentheses may hold spaces; after it are the state and the parent's id.
		_, rest, _ := strings.Cut(string(raw[bytes.LastIndexByte(raw, ')'):]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(first) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			if err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

func (s *Server) signal(sig syscall.Signal, pids ...int) {
	s.t.Helper()
	for i, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && i == 0 {
			s.t.Errorf("storetest: %v of process %d: %v", sig, pid, fmt.Errorf("kill: %w", err))
		}
	}
}
