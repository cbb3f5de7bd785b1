package sdk_test

import (
	"bufio"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/nodetest"
)

// process is a program that prints where it listens.
type process struct {
	url  string
	stop func()
	kill func() // as kill -9 does
}

// spawn starts a program; it is asked to end, and must end well, when the test does, unless it was killed.
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
	printed := &lines{}
	where, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		printed.read(out, where)
	}()
	var over sync.Once
	ends := func(how func()) func() { return func() { over.Do(how) } }
	p := process{kill: ends(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // it was killed
	}), stop: ends(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-read:
		case <-time.After(20 * time.Second):
			t.Errorf("%s did not end when asked to", cmd)
			_ = cmd.Process.Kill()
			<-read
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s did not end well: %v", cmd, err)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", cmd, printed)
		}
	})}
	t.Cleanup(p.stop)
	select {
	case p.url = <-where:
		return p
	case <-read:
		t.Fatalf("%s never printed where it listens:\n%s", cmd, printed)
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

// agent is one of the examples.
type agent struct {
	url     string
	port    string
	command []string
	stop    func()
}

// begin starts the agent, at the port that it had before.
func (a *agent) begin(t *testing.T) {
	t.Helper()
	p := spawn(t, exec.Command(a.command[0], append(a.command[1:], "--port", a.port)...))
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

// agents starts the examples.
func agents(t *testing.T) map[string]*agent {
	t.Helper()
	nodetest.Need(t, "../../sdk/node/dist/index.js", "make setup-sdk")
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*agent)
	for id, command := range map[string][]string{
		"node": {"node", "../../examples/nodeagent/agent.mjs"}, "go": {path}, "py": {python(), "-W", "error", "../../examples/pyagent/agent.py"},
	} {
		all[id] = &agent{port: "0", command: command}
		all[id].begin(t)
	}
	return all
}

// python is the interpreter: $PYTHON, or the system's.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	return "python3"
}

// built is examples/goagent, built once into the folder that TestMain removes.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "goagent")
	return path, exec.Command("go", "build", "-trimpath", "-o", path, "aqueduct/examples/goagent").Run()
})
