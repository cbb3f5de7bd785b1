package sdk_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that prints where it listens.
type process struct {
	url  string
	stop func()
}

// spawn starts a program; it is asked to end, and must end well, when the test does.
func spawn(t *testing.T, cmd *exec.Cmd) process {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := &lines{}
	where, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		said.read(out, where)
	}()
	p := process{stop: sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-read:
		case <-time.After(20 * time.Second):
			t.Errorf("%s did not end when asked to", cmd.Path)
			_ = cmd.Process.Kill()
			<-read
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s did not end well: %v", cmd.Path, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", cmd.Path, said)
		}
	})}
	t.Cleanup(p.stop)
	select {
	case p.url = <-where:
		return p
	case <-read:
		t.Fatalf("%s never said where it listens:\n%s", cmd.Path, said)
		return p
	}
}

// lines keeps what a program prints.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) read(r io.Reader, where chan<- string) {
	address := regexp.MustCompile(`listening on.*(127\.0\.0\.1:\d+)`)
	found := false
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		l.mu.Lock()
		l.text.WriteString(sc.Text() + "\n")
		l.mu.Unlock()
		if m := address.FindStringSubmatch(sc.Text()); m != nil && !found {
			found = true
			where <- "http://" + m[1]
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// agent is examples/pyagent.
type agent struct {
	url  string
	port string
	stop func()
}

func startAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{port: "0"}
	a.begin(t)
	return a
}

func (a *agent) begin(t *testing.T) {
	t.Helper()
	p := spawn(t, exec.Command(python(), "-W", "error", "../../examples/pyagent/agent.py", "--port", a.port))
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	a.url, a.port, a.stop = p.url, u.Port(), p.stop
}

// restart ends the process and starts another one in its place.
func (a *agent) restart(t *testing.T) {
	t.Helper()
	a.stop()
	a.begin(t)
}

// cutting is a proxy in front of a server whose event streams break after so many bytes.
func cutting(t *testing.T, target string, after int64) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // it complains of each cut
		ModifyResponse: func(resp *http.Response) error {
			if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				resp.Body = &cut{ReadCloser: resp.Body, left: after}
			}
			return nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends when it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return "http://" + l.Addr().String()
}

// cut is a body that breaks.
type cut struct {
	io.ReadCloser
	left int64
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("cut")
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
