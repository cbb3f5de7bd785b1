package faults_test

import (
	"bytes"
	"fmt"
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

// acpEnv is a serverEnv with an acp-proxy of ours behind a wire, and scripted ACP agents behind it.
type acpEnv struct {
	*serverEnv
	env   []string
	dir   string
	wire  *wire
	proxy *proxyProcess
}

// proxyID is the proxy's, and so its agent's.
const proxyID = "p1"

func newACPEnv(t testing.TB, database string, env ...string) *acpEnv {
	y := newACPEnvAlone(t, database, env...)
	y.startProxy()
	y.linked()
	return y
}

// newACPEnvAlone is one that has no proxy yet.
func newACPEnvAlone(t testing.TB, database string, env ...string) *acpEnv {
	dir := t.TempDir()
	y := &acpEnv{serverEnv: &serverEnv{t: t, database: database, agent: newAgent(t)}, dir: dir, wire: newWire(t)}
	y.env = append([]string{"AQUEDUCT_SIGNING_KEY_FILE=" + filepath.Join(dir, "key")}, env...)
	y.token()
	y.revive()
	return y
}

// token puts the proxy's token where it looks for it.
func (y *acpEnv) token() {
	y.t.Helper()
	path, err := program.Shipped()
	if err != nil {
		y.t.Fatal(err)
	}
	cmd := exec.Command(path, "token", "issue", "--type", "acp_proxy", "--proxy", proxyID)
	cmd.Env = append(os.Environ(), y.env...)
	token, err := cmd.Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(y.dir, "token"), token, 0o600)
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// revive starts a server, to which the wire then leads.
func (y *acpEnv) revive() {
	y.t.Helper()
	y.start(program.Shipped, y.env...)
	y.reconnect()
}

func (y *acpEnv) reconnect() { y.wire.join(strings.TrimPrefix(y.url, "http://")) }

// proxyProcess is "aqueduct proxy".
type proxyProcess struct {
	cmd  *exec.Cmd
	said bytes.Buffer // to be read when it has ended
	once sync.Once
}

func (y *acpEnv) startProxy() {
	y.t.Helper()
	y.runProxy("--url", y.agentURL(), "--id", proxyID, "--token-file", filepath.Join(y.dir, "token"), "--cwd", y.t.TempDir(), "--", os.Args[0])
}

// agentURL is where proxies link, over the wire.
func (y *acpEnv) agentURL() string { return "ws://" + y.wire.ln.Addr().String() + "/ws/agent" }

func (y *acpEnv) runProxy(args ...string) {
	y.t.Helper()
	path, err := program.Shipped()
	if err != nil {
		y.t.Fatal(err)
	}
	p := &proxyProcess{}
	p.cmd = exec.Command(path, append([]string{"proxy"}, args...)...)
	p.cmd.Env = append(os.Environ(), bookVar+"="+y.book(), "XDG_CONFIG_HOME="+y.dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	// A pipe an agent still holds would keep Wait for ever.
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		y.t.Fatal(err)
	}
	y.proxy = p
	y.t.Cleanup(func() {
		p.kill()
		if y.t.Failed() {
			y.t.Logf("the proxy said:\n%s", p.said.String())
		}
	})
}

// newProxy replaces the proxy: a new one waits less long between its attempts to connect.
func (y *acpEnv) newProxy() {
	y.t.Helper()
	y.proxy.kill()
	y.parted()
	y.startProxy()
	y.linked()
}

// kill is kill -9; it returns when the process is gone.
func (p *proxyProcess) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // it may be dead already
		_ = p.cmd.Wait()
	})
}

// linked waits until the server has the proxy's link, parted until it has noticed its end.
func (y *acpEnv) linked() { y.t.Helper(); y.until(true) }

func (y *acpEnv) parted() { y.t.Helper(); y.until(false) }

func (y *acpEnv) until(linked bool) {
	y.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var p struct{ Linked bool }
		if found, err := y.get("/api/proxies/"+proxyID, &p); err != nil {
			y.t.Fatal(err)
		} else if found && p.Linked == linked {
			return
		}
	}
	y.t.Fatalf("the proxy's link does not become %v\n%s", linked, y.log())
}

func (y *acpEnv) book() string { return filepath.Join(y.dir, "book") }

// lines are those of the agents' book that begin with a word, without it.
func (y *acpEnv) lines(word string) (rest []string) {
	y.t.Helper()
	raw, err := os.ReadFile(y.book())
	if err != nil && !os.IsNotExist(err) {
		y.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if after, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), word); ok {
			rest = append(rest, strings.TrimPrefix(after, " "))
		}
	}
	return rest
}

// wrote waits until the agents' book has n lines that begin with a word.
func (y *acpEnv) wrote(word string, n int) {
	y.t.Helper()
	for end := time.Now().Add(30 * time.Second); len(y.lines(word)) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			y.t.Fatalf("the agent does not write %q\n%s", word, y.log())
		}
	}
}

// prompted: each of these prompts reached an agent once, and no other did.
func (y *acpEnv) prompted(texts ...string) {
	y.t.Helper()
	if got := y.lines("prompt"); strings.Join(got, "\n") != strings.Join(texts, "\n") {
		y.t.Errorf("the agent got %q, not %q", got, texts)
	}
}

// pid is that of the agent that was started last.
func (y *acpEnv) pid() (pid int) {
	y.t.Helper()
	starts := y.lines("start")
	if len(starts) == 0 {
		y.t.Fatal("no agent was started")
	}
	if _, err := fmt.Sscan(starts[len(starts)-1], &pid); err != nil {
		y.t.Fatal(err)
	}
	return pid
}

// talk is one prompt and what its client receives.
type talk struct {
	*ledger
	ended chan struct{}
	all   []event // when ended
	bell  chan struct{}

	heardMu sync.Mutex
	heard   int // numbers
}

// chat posts a prompt to the agent and listens, until the stream ends or is cut.
func (y *acpEnv) chat(thread, run, words string) *talk {
	y.t.Helper()
	in, err := y.stream("POST", "/api/agui/chat?agent="+proxyID, prompt(thread, run, words))
	if err != nil {
		y.t.Fatal(err)
	}
	k := &talk{ledger: newLedger(y.t, thread, 0), ended: make(chan struct{}), bell: make(chan struct{}, 1)}
	go func() {
		defer close(k.ended)
		defer in.close()
		for {
			e, err := in.next()
			if err != nil {
				return
			}
			k.note(e)
			k.all = append(k.all, e)
			k.heardMu.Lock()
			k.heard += len(strings.Fields(text([]event{e})))
			k.heardMu.Unlock()
			select {
			case k.bell <- struct{}{}:
			default:
			}
		}
	}()
	y.t.Cleanup(func() {
		in.cancel()
		<-k.ended
	})
	return k
}

// until waits until the client has received n numbers.
func (k *talk) until(n int) {
	k.t.Helper()
	late := time.After(30 * time.Second)
	for {
		heard := k.counted()
		if heard >= n {
			return
		}
		select {
		case <-k.bell:
		case <-k.ended:
			k.t.Fatalf("thread %s: the stream ended at %d of %d: %v", k.thread, heard, n, k.all)
		case <-late:
			k.t.Fatalf("thread %s: nothing comes after %d", k.thread, heard)
		}
	}
}

// counted is how many numbers the client has received.
func (k *talk) counted() int {
	k.heardMu.Lock()
	defer k.heardMu.Unlock()
	return k.heard
}

// over waits for the end of the stream, and gives its last event.
func (k *talk) over() event {
	k.t.Helper()
	select {
	case <-k.ended:
	case <-time.After(60 * time.Second):
		k.t.Fatalf("thread %s: the stream does not end", k.thread)
	}
	if len(k.all) == 0 {
		k.t.Fatalf("thread %s: the stream was empty", k.thread)
	}
	return k.all[len(k.all)-1]
}

// kept compares what was seen with the log of a thread that has settled, and gives the log.
func (y *acpEnv) kept(seen ...*talk) []event {
	y.t.Helper()
	_, run := y.settled(y.t, seen[0].thread)
	log := y.whole(y.t, seen[0].thread, run.LastSeq)
	for _, k := range seen {
		k.compare(log)
	}
	seen[0].grammar(log)
	return log
}

// numbered: a log, or a part of one, has the numbers from 1 to n, each once.
func (y *acpEnv) numbered(log []event, n int) {
	y.t.Helper()
	words := strings.Fields(text(log))
	for i, word := range words {
		if word != fmt.Sprint(i+1) {
			y.t.Errorf("number %d is %s: %s", i+1, word, text(log))
			return
		}
	}
	if len(words) != n {
		y.t.Errorf("it says %d of %d numbers", len(words), n)
	}
}

// count is how many events of a kind there are.
func count(log []event, kind string) (n int) {
	for _, e := range log {
		if e.kind() == kind {
			n++
		}
	}
	return n
}
