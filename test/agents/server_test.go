package agents_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/program"
)

// server is the program with one ACP agent, on a database and an address that outlive it.
type server struct {
	t       *testing.T
	program string
	env     []string
	args    []string
	address string // of the first start; the later ones take it again
	cmd     *exec.Cmd
	read    chan struct{} // closed when all its output was read

	mu   sync.Mutex
	said strings.Builder
}

// serve starts the program with the agent and ends it with the test.
func serve(t *testing.T, o *opencode, args ...string) *server {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: path, env: append(os.Environ(), o.env()...), address: "127.0.0.1:0"}
	s.args = append([]string{
		"serve", "--acp", strings.Join(o.command(), " "), "--acp-cwd", o.workspace,
		"--database", "sqlite:" + filepath.Join(t.TempDir(), "aqueduct.db"),
	}, args...)
	t.Cleanup(func() {
		if err := s.stop(syscall.SIGTERM); err != nil {
			t.Errorf("aqueduct did not end well when asked to: %v", err)
		}
		if t.Failed() {
			t.Logf("aqueduct said:\n%s", s.said.String())
		}
	})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// start returns when the program listens.
func (s *server) start() error {
	s.cmd = exec.Command(s.program, append(s.args, "--listen", s.address)...)
	s.cmd.Env = s.env
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		return err
	}
	listens, read := make(chan string, 1), make(chan struct{})
	s.read = read
	go func() {
		defer close(read)
		s.listen(out, listens)
	}()
	select {
	case s.address = <-listens:
		return nil
	case <-read:
		return fmt.Errorf("aqueduct ended before it listened")
	case <-time.After(patience):
		return fmt.Errorf("aqueduct does not listen")
	}
}

func (s *server) listen(out io.Reader, listens chan<- string) {
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		s.mu.Lock()
		s.said.WriteString(sc.Text() + "\n")
		s.mu.Unlock()
		if _, url, ok := strings.Cut(sc.Text(), "listening on http://"); ok {
			listens <- strings.TrimRight(url, "/")
		}
	}
}

// stop ends it and waits until no process holds its output any more: its agents have it too.
func (s *server) stop(how syscall.Signal) error {
	_ = s.cmd.Process.Signal(how) // it may have ended by itself; Wait tells
	<-s.read
	return s.cmd.Wait()
}

// url is where it is reached.
func (s *server) url() string { return "http://" + s.address }

// control lets a judge kill the server the hard way and start it again: POST /restart.
func (s *server) control() string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, _ *http.Request) {
		_ = s.stop(syscall.SIGKILL) // "signal: killed"
		if err := s.start(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	srv := httptest.NewServer(mux)
	s.t.Cleanup(srv.Close)
	return srv.URL
}
