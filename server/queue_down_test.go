package server_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/queue"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestQueueOfDownAgent: tasks of an agent that cannot be connected to wait until it is there, and may be cancelled; none fails, and
// none is dispatched twice.
func TestQueueOfDownAgent(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	h := newEnvWith(t, saysN(1), plan{queue: queue.Limits{PerAgent: 3}})
	cfg := atHome(t)
	cfg.ID, cfg.URL = "down", "http://"+address
	h.agents.Add("down", httpagent.New(cfg))
	var tasks []queuedTask
	for i := range 12 {
		tasks = append(tasks, h.queues(fmt.Sprintf("q%02d", i), "x", `,"agent_id":"down"`))
	}
	h.until(tasks[0].RunID, "RUNNING")
	time.Sleep(1500 * time.Millisecond)
	waiting := 0
	for _, task := range tasks {
		switch now := h.task(task.RunID); now.Status {
		case "WAITING":
			waiting++
		case "RUNNING":
		default:
			t.Fatalf("%+v", now)
		}
	}
	if waiting < 9 {
		t.Errorf("%d of 12 wait", waiting)
	}
	if got := h.do("POST", "/api/runs/"+tasks[0].RunID+"/cancel", "{}"); got.status != 202 {
		t.Error(got)
	}
	h.until(tasks[0].RunID, "CANCELLED")
	calls := counted(t, address)
	for _, task := range tasks[1:] {
		h.until(task.RunID, "DONE")
	}
	calls.once(t, 11)
}

// TestQueueOfDownAgentRestarted: a server that goes down while an agent is away leaves nothing to fail: the next one calls the
// agent, because nothing has reached it.
func TestQueueOfDownAgentRestarted(t *testing.T) {
	t.Parallel()
	dsn, address := storetest.SQLite(t), closedPort(t)
	server := func(t *testing.T) *env {
		h := newEnvWith(t, saysN(1), plan{queue: queue.Limits{PerAgent: 3}, open: func(t testing.TB) (store.Store, error) {
			return sqlite.Open(t.Context(), dsn, sqlite.Options{Sent: sentSQLite.Note})
		}})
		cfg := atHome(t)
		cfg.ID, cfg.URL = "down", "http://"+address
		h.agents.Add("down", httpagent.New(cfg))
		return h
	}
	var tasks []queuedTask
	t.Run("down", func(t *testing.T) {
		h := server(t)
		for i := range 5 {
			tasks = append(tasks, h.queues(fmt.Sprintf("q%02d", i), "x", `,"agent_id":"down"`))
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			rows, err := h.store.TakenTasks(t.Context(), store.System())
			if err != nil || time.Now().After(end) {
				t.Fatal(rows, err)
			}
			// Up to three: where the first has knocked before the others were added, no more are taken.
			if len(rows) > 0 && !slices.ContainsFunc(rows, func(r store.TakenTask) bool { return r.Status != store.TaskUnsent }) {
				return
			}
		}
	})
	t.Run("up", func(t *testing.T) {
		calls, h := counted(t, address), server(t)
		for _, task := range tasks {
			h.until(task.RunID, "DONE")
		}
		calls.once(t, len(tasks))
	})
}

// closedPort is an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().String()
}

// callCount is an agent that counts the calls of each run.
type callCount struct {
	mu    sync.Mutex
	calls map[string]int
}

// counted serves one at an address.
func counted(t *testing.T, address string) *callCount {
	t.Helper()
	c := &callCount{calls: make(map[string]int)}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.calls[r.Header.Get("x-run-id")]++
		c.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: delta\ndata: {\"text\":\"hi\"}\n\nevent: done\ndata: {}\n\n"))
	}))
	_ = up.Listener.Close()
	var err error
	if up.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	up.Start()
	t.Cleanup(up.Close)
	return c
}

// once checks that so many runs were dispatched, each once.
func (c *callCount) once(t *testing.T, runs int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.calls {
		if id != "" && n != 1 {
			t.Errorf("%s was dispatched %d times", id, n)
		}
	}
	delete(c.calls, "") // probes
	if len(c.calls) != runs {
		t.Errorf("%d runs were dispatched", len(c.calls))
	}
}
