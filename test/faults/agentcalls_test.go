package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// mortal is an HTTP agent that may die: its connections break, and it answers nothing until it is back.
type mortal struct {
	*httptest.Server
	dead atomic.Bool
	mu   sync.Mutex
	runs map[string]int // how often each run was begun
}

func newMortal(t *testing.T, answer func(ctx context.Context, out *frames, r *http.Request, c invocation)) *mortal {
	t.Helper()
	m := &mortal{runs: make(map[string]int)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		var c invocation
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&c) != nil {
			return
		}
		m.mu.Lock()
		m.runs[c.RunID]++
		m.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		answer(r.Context(), &frames{w: w, r: r}, r, c)
	}))
	m.Config.ErrorLog = nil
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// dies breaks everything that is under way, for a moment.
func (m *mortal) dies() {
	m.dead.Store(true)
	m.CloseClientConnections()
	time.Sleep(50 * time.Millisecond)
	m.dead.Store(false)
}

// most is how often any run was begun.
func (m *mortal) most() (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.runs {
		most = max(most, n)
	}
	return most
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

// TestAgentCallsKilled: an agent calls another, and at twenty moments of that the server, the caller or the called agent is
// killed. No child outlives its caller, nothing is begun twice, and the tree shows what is.
func TestAgentCallsKilled(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + storetest.SQLite(t) },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			child := newMortal(t, func(_ context.Context, out *frames, _ *http.Request, _ invocation) {
				for i := range 20 {
					if !out.send("delta", fmt.Sprintf(`{"text":"%d "}`, i)) || !out.wait(5*time.Millisecond) {
						return
					}
				}
				out.send("done", "{}")
			})
			caller := newMortal(t, callsAgent)
			h := &serverEnv{t: t, database: database(t), agent: newAgent(t), flags: []string{"--agent", "caller=" + caller.URL, "--agent", "child=" + child.URL}}
			h.start(program.Shipped)
			ends := make(map[string]int)
			for round := range 20 {
				root := h.callsAndDies(t, round, caller, child)
				tree := h.atRest(t, root)
				ends[tree.Status]++
			}
			if caller.most() > 1 || child.most() > 1 {
				t.Errorf("a run of the caller was begun %d times, one of the child %d times", caller.most(), child.most())
			}
			if ends["DONE"] == 0 || ends["FAILED"] == 0 {
				t.Errorf("the kills were not at moments that matter: %v", ends)
			}
			t.Logf("20 kills: %v", ends)
		})
	}
}

// callsAndDies prompts the caller and kills one of the three at a moment of its work; it gives the Turn.
func (h *serverEnv) callsAndDies(t *testing.T, round int, caller, child *mortal) (root string) {
	t.Helper()
	thread := fmt.Sprint("tree", round)
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
	switch round % 3 {
	case 0:
		h.kill()
		h.start(program.Shipped)
	case 1:
		caller.dies()
	case 2:
		child.dies()
	}
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
