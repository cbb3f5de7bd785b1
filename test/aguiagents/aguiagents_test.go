// Package aguiagents_test puts agents of others that speak AG-UI behind a running aqueduct, and has the official clients talk
// to them.
package aguiagents_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds the wait for what is started.
const patience = 30 * time.Second

// started starts a command that prints where it listens, and gives what the pattern found in that line.
func started(t *testing.T, cmd *exec.Cmd, pattern string) string {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil { // stays open for as long as the test runs
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		line := regexp.MustCompile(pattern)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if m := line.FindStringSubmatch(sc.Text()); m != nil {
				found <- m[1]
				break
			}
			t.Log(sc.Text())
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	select {
	case address := <-found:
		return address
	case <-read:
		t.Fatalf("%s ended before it listened", cmd.Path)
	case <-time.After(patience):
		t.Fatalf("%s does not listen", cmd.Path)
	}
	return ""
}

// TestTanStack: an agent made with TanStack AI, under both official clients: text, history, its own tools, the page's tools,
// tools that need approval, a failure.
func TestTanStack(t *testing.T) { judge(t, "tanstack", nil) }

// TestMastra: an agent of Mastra behind the protocol's own package for it; with a shared state too.
func TestMastra(t *testing.T) { judge(t, "mastra", nil) }

// TestLangGraph: a graph on LangGraph's own server behind the protocol's own package for it, as that ships: interrupts come by CUSTOM
// on_interrupt, and are answered by forwardedProps.command.resume; with a shared state too.
func TestLangGraph(t *testing.T) { judge(t, "langgraph", nil) }

// TestLangGraphOutcome: the same with emitInterruptOutcome, where each interrupt comes in both ways.
func TestLangGraphOutcome(t *testing.T) { judge(t, "langgraph", []string{"OUTCOME=1"}, "outcome") }

// judge starts an agent with arguments and has NAME.test.mjs, with more variables, talk to it through the program.
func judge(t *testing.T, name string, env []string, args ...string) {
	t.Helper()
	nodetest.Need(t, "node_modules/.installed", "make setup-aguiagents")
	agent := "http://127.0.0.1:" + started(t, exec.Command("node", append([]string{name + ".mjs"}, args...)...), `listening on (\d+)`)
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--auth", "none",
		"--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--agent", name+"="+agent+"/,protocol=agui")
	url := "http://" + started(t, serve, `listening on .*?(127\.0\.0\.1:\d+)`)
	report := nodetest.Run(t, append(env, "AQUEDUCT_URL="+url, "AGENT_URL="+agent), name+".test.mjs")
	t.Logf("node --test %s.test.mjs\n%s", name, nodetest.Totals(report))
}

// TestStreams: what both official clients take of an agent is taken, and what both refuse is refused with the event's name.
func TestStreams(t *testing.T) { judge(t, "streams") }

// TestMemory: a graph of LangGraph behind the protocol's package as it ships, with a model that refuses doubled messages and
// calls without results. It compares what it is sent with its own memory by id.
func TestMemory(t *testing.T) { judge(t, "memory") }
