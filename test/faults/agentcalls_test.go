package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/program"
)

// agentVar is which agent this program is: it is started as one, to be killed.
const agentVar = "AQUEDUCT_TEST_AGENT"

// mortal is an HTTP agent in a process of its own, which is killed and started again at the same port. It notes each run that
// it begins.
type mortal struct {
	t        *testing.T
	role, at string
	notes    string
	cmd      *exec.Cmd
}

// newMortal starts one: "caller", "child", or "asker", a child that asks before it goes on.
func newMortal(t *testing.T, role string) *mortal {
	t.Helper()
	m := &mortal{t: t, role: role, at: fmt.Sprint("127.0.0.1:", program.FreePort(t)), notes: filepath.Join(t.TempDir(), "notes")}
	m.start()
	t.Cleanup(m.kill)
	return m
}

func (m *mortal) start() {
	m.t.Helper()
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), agentVar+"="+strings.Join([]string{m.role, m.at, m.notes}, ","))
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", m.at)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			m.t.Fatal(err)
		}
	}
}

// kill is kill -9.
func (m *mortal) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // killed
}

func (m *mortal) dies() {
	m.kill()
	m.start()
}

// most is how often any run was begun.
func (m *mortal) most() (most int) {
	raw, err := os.ReadFile(m.notes)
	if err != nil {
		m.t.Fatal(err)
	}
	runs := make(map[string]int)
	for _, run := range strings.Fields(string(raw)) {
		runs[run]++
		most = max(most, runs[run])
	}
	return most
}

// beMortal is the process of such an agent. The child counts; the caller calls it.
func beMortal(role, at, notes string) int {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", func(w http.ResponseWriter, r *http.Request) {
		var c invocation
		file, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil || json.NewDecoder(r.Body).Decode(&c) != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(file, "%s/%d\n", c.RunID, len(c.Resume))
		_ = file.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		out := &frames{w: w, r: r}
		switch role {
		case "caller":
			callsAgent(r.Context(), out, r, c)
			return
		case "asker":
			out.follow(invocation{RunID: c.RunID, Input: struct {
				Content string `json:"content"`
			}{"ask 2"}, Resume: c.Resume})
			return
		}
		for i := range 20 {
			if !out.send("delta", fmt.Sprintf(`{"text":"%d "}`, i)) || !out.wait(5*time.Millisecond) {
				return
			}
		}
		out.send("done", "{}")
	})
	if err := http.ListenAndServe(at, mux); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// callsAgent has the agent "child" work, as an agent does that repeats a call whose connection broke, and passes on its text.
func callsAgent(ctx context.Context, out *frames, r *http.Request, c invocation) {
	if !out.send("delta", `{"text":"I ask. "}`) {
		return
	}
	body := fmt.Appendf(nil, `{"run_id":%q,"input_message":{"role":"user","content":"count"},"idempotency_key":"k"}`, c.RunID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Header.Get("x-aqueduct-base-url")+"/v1/agents/child:invoke", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.Header.Get("x-aqueduct-run-token"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		out.send("error", `{"code":"no_child","message":"The call broke off."}`)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(answer), "event: done") {
		out.send("error", `{"code":"no_child","message":"The called agent did not answer."}`)
		return
	}
	out.send("delta", `{"text":"It answered."}`)
	out.send("done", "{}")
}

// calledTree is as much of GET /v1/runs/{id}/tree as is looked at.
type calledTree struct {
	RunID    string `json:"run_id"`
	AgentID  string `json:"agent_id"`
	Status   string `json:"status"`
	Children []calledTree
}

// killPoints are the moments at which each of the three is killed.
const killPoints = 20

// TestAgentCallsKilled: an agent calls another, and each of the server, the caller and the called agent is killed at twenty
// moments of that. No child outlives its caller, nothing is begun twice, and the tree shows what is.
func TestAgentCallsKilled(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		child, caller := newMortal(t, "child"), newMortal(t, "caller")
		h := &serverEnv{t: t, database: database, agent: newAgent(t), flags: []string{"--agent", "caller=http://" + caller.at, "--agent", "child=http://" + child.at}}
		h.start(program.Shipped)
		for _, victim := range []struct {
			name string
			dies func()
		}{
			{"server", func() { h.kill(); h.start(program.Shipped) }},
			{"caller", caller.dies},
			{"child", child.dies},
		} {
			ends := make(map[string]int)
			for round := range killPoints {
				ends[h.atRest(t, h.callsAndDies(t, fmt.Sprint(victim.name, round), victim.dies)).Status]++
			}
			if ends["FAILED"] == 0 {
				t.Errorf("%s: the kills were not at moments that matter: %v", victim.name, ends)
			}
			t.Logf("%d kills of the %s: %v", killPoints, victim.name, ends)
		}
		if caller.most() > 1 || child.most() > 1 {
			t.Errorf("a run of the caller was begun %d times, one of the child %d times", caller.most(), child.most())
		}
	})
}

// callsAndDies prompts the caller on a thread and has one of the three die at a moment of its work; it gives the Turn.
func (h *serverEnv) callsAndDies(t *testing.T, thread string, dies func()) (root string) {
	t.Helper()
	started := make(chan string, 1)
	go func() {
		in, err := h.stream("POST", "/api/agui/chat?agent=caller", prompt(thread, thread+"-r", "go"))
		if err != nil {
			started <- ""
			return
		}
		defer in.close()
		_, err = in.next()
		started <- thread + "-r"
		for err == nil { // it ends when the server does, or the run
			_, err = in.next()
		}
	}()
	if <-started == "" {
		t.Fatal("the prompt was not taken")
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	dies()
	return thread + "-r"
}

// atRest waits until a Turn is over, and checks that all below it are.
func (h *serverEnv) atRest(t *testing.T, root string) (tree calledTree) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		tree = calledTree{}
		found, err := h.get("/v1/runs/"+root+"/tree", &tree)
		if err != nil || !found {
			t.Fatalf("%s: %t %v", root, found, err)
		}
		over := tree.Status == "DONE" || tree.Status == "FAILED" || tree.Status == "CANCELLED"
		if over && len(tree.Children) > 1 {
			t.Fatalf("%s called %d agents: %+v", root, len(tree.Children), tree)
		}
		orphans := 0
		for _, c := range tree.Children {
			if c.Status != "DONE" && c.Status != "FAILED" && c.Status != "CANCELLED" {
				orphans++
			}
			if c.AgentID != "child" {
				t.Errorf("%s has the child %+v", root, c)
			}
		}
		if over && orphans == 0 {
			if tree.Status == "DONE" && (len(tree.Children) != 1 || tree.Children[0].Status != "DONE") {
				t.Errorf("%s is done, and its child is not: %+v", root, tree)
			}
			return tree
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come to rest: %+v\n%s", root, tree, h.log())
		}
	}
}
