package judges_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// serve starts the program on a free port and a database of its own, the demo agent
// pausing that long between two words, and gives its URL.
func serve(t *testing.T, pace string, args ...string) string {
	t.Helper()
	url, _ := serveOn(t, filepath.Join(t.TempDir(), "aqueduct.db"), pace, args...)
	return url
}

// serveOn is serve on a given database; kill ends the program at once, as a crash does.
func serveOn(t *testing.T, database, pace string, args ...string) (url string, kill func()) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--demo", "--listen", "127.0.0.1:0", "--database", "sqlite:" + database}, args...)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "AQUEDUCT_DEMO_PACE="+pace)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := &lines{}
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		said.read(out, found)
	}()
	killed := false
	t.Cleanup(func() {
		if !killed {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-read
			if err := cmd.Wait(); err != nil {
				t.Errorf("aqueduct did not end well when asked to: %v", err)
			}
		}
		if t.Failed() {
			t.Logf("aqueduct said:\n%s", said)
		}
	})
	kill = func() {
		killed = true
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	}
	select {
	case u := <-found:
		return u, kill
	case <-read:
		t.Fatalf("aqueduct never said where it listens:\n%s", said)
		return "", nil
	}
}

// lines keeps what a program prints.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// read finds the address the program listens on, wherever in a line it stands.
func (l *lines) read(r io.Reader, url chan<- string) {
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	found := false
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		l.mu.Lock()
		l.text.WriteString(sc.Text() + "\n")
		l.mu.Unlock()
		if m := address.FindString(sc.Text()); m != "" && !found && strings.Contains(sc.Text(), "listen") {
			found = true
			url <- "http://" + m
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
