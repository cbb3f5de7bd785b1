package faults_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if book := os.Getenv(bookVar); book != "" {
		return serveAgent(book)
	}
	if what := strings.Split(os.Getenv(agentVar), ","); len(what) == 3 {
		return beMortal(what[0], what[1], what[2])
	}
	return program.Main(m)
}

// fused is the program that dies at failpoints.
var fused = program.Built("aqueduct-fused", "-tags", "failpoints")

// serverEnv is a database, an agent and the server between them, which may die and come back.
type serverEnv struct {
	t        testing.TB
	database string
	agent    *agent
	flags    []string // further ones
	enter    []string // the command that starts a server elsewhere; none: it starts here
	ready    func()   // returns when the database takes connections; nil where it always does
	*server
}

func newServerEnv(t testing.TB, database string) *serverEnv {
	h := &serverEnv{t: t, database: database, agent: newAgent(t)}
	h.start(program.Shipped)
	return h
}

// start starts a server on the environment's database.
func (h *serverEnv) start(program func() (string, error), env ...string) {
	h.t.Helper()
	h.server = h.another(program, env...)
}

// another is a server of the same name on the same database, beside the one there is.
func (h *serverEnv) another(built func() (string, error), env ...string) *server {
	h.t.Helper()
	if h.ready != nil {
		h.ready()
	}
	path, err := built()
	if err != nil {
		h.t.Fatal(err)
	}
	s := &server{t: h.t, exited: make(chan struct{})}
	s.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--database", h.database,
		"--agent", "fake="+h.agent.URL, "--agent", "nowhere=http://127.0.0.1:1")
	s.cmd.Args = append(append(s.cmd.Args, program.State(h.t, h.database)...), h.flags...)
	if len(h.enter) > 0 {
		inside := s.cmd.Args
		s.cmd = exec.Command(h.enter[0], append(h.enter[1:len(h.enter):len(h.enter)], inside...)...)
	}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.begin()
	h.t.Cleanup(s.kill)
	return s
}

// server is one process.
type server struct {
	t      testing.TB
	cmd    *exec.Cmd
	url    string
	exited chan struct{}
	status error // set when exited is closed
	mu     sync.Mutex
	said   strings.Builder
}

func (s *server) begin() {
	s.t.Helper()
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	url := make(chan string, 1)
	go func() {
		defer close(s.exited)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			s.mu.Lock()
			s.said.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			if _, u, ok := strings.Cut(lines.Text(), "listening on "); ok {
				url <- u
			}
		}
		s.status = s.cmd.Wait()
	}()
	select {
	case s.url = <-url:
	case <-s.exited:
		s.t.Fatalf("the server ended before it listened:\n%s", s.log())
	case <-time.After(time.Minute):
		s.t.Fatalf("the server does not listen:\n%s", s.log())
	}
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// kill is kill -9; it returns when the process is gone.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may be dead already
	<-s.exited
}

// gone waits for the process to leave by itself.
func (s *server) gone(within time.Duration) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(within):
		s.t.Fatalf("the server is still there after %v:\n%s", within, s.log())
	}
}

// peak is the most memory the process has ever held, in bytes (VmHWM).
func (s *server) peak() int64 {
	s.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return kib << 10
}

// stopped waits until every thread of the process is stopped.
func (s *server) stopped() {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		if err != nil {
			s.t.Fatal(err)
		}
		running := len(tasks) == 0
		for _, task := range tasks {
			raw, err := os.ReadFile(task)
			_, state, _ := strings.Cut(string(raw), ") ")
			running = running || err != nil || !strings.HasPrefix(state, "T")
		}
		if !running {
			return
		}
	}
	s.t.Fatalf("the server does not stop\n%s", s.log())
}
