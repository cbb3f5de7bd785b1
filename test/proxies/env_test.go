package proxies_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds every wait of these tests for another process.
const patience = 30 * time.Second

// heldAgent sends "first", waits until its test lets it go on, and sends "last". The prompt is
// the key by which the test releases it.
type heldAgent struct {
	*httptest.Server
	mu    sync.Mutex
	gates map[string]chan struct{}
}

func newHeldAgent(t *testing.T) *heldAgent {
	a := &heldAgent{gates: make(map[string]chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", a.invoke)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

func (a *heldAgent) gate(key string) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gates[key] == nil {
		a.gates[key] = make(chan struct{})
	}
	return a.gates[key]
}

func (a *heldAgent) release(key string) { close(a.gate(key)) }

func (a *heldAgent) invoke(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Input struct {
			Content string `json:"content"`
		} `json:"input_message"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"first\"}\n\n")
	w.(http.Flusher).Flush()
	select {
	case <-a.gate(call.Input.Content):
	case <-r.Context().Done():
		return
	}
	_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"last\"}\n\nevent: done\ndata: {}\n\n")
}

// serve starts the program as it ships on a free port and gives its host and port.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + storetest.SQLite(t)}, args...)
	return start(t, regexp.MustCompile(`listen.*(127\.0\.0\.1:\d+)`), exec.Command(path, args...))
}

// start runs a program for as long as the test and, when there is a form to wait for, gives
// its first match in what the program writes.
func start(t *testing.T, form *regexp.Regexp, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			text.WriteString(sc.Text() + "\n")
			if m := form.FindStringSubmatch(sc.Text()); m != nil && len(found) == 0 {
				found <- m[len(m)-1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(cmd.Path), &text)
		}
	})
	select {
	case m := <-found:
		return m
	case <-read:
		t.Fatalf("%s ended:\n%s", cmd, &text)
	case <-time.After(patience):
		t.Fatalf("%s is not ready", cmd)
	}
	return ""
}

// answers waits until a proxy takes connections.
func answers(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		conn, err := dial()
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the proxy takes no connection: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}
