package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/test/program"
)

// queued is how many prompts TestQueue puts into the queue: AQUEDUCT_QUEUE, or some hundred.
func queued(t *testing.T) int {
	t.Helper()
	text := os.Getenv("AQUEDUCT_QUEUE")
	if text == "" {
		return 400
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestQueue: prompts wait in the queue while the server is killed again and again. Each is dispatched at most once, those of a
// thread in their order, and none is lost: what was not at its agent when the server died is worked on afterwards.
func TestQueue(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		const threads, kills = 40, 8
		n := queued(t)
		h := newServerEnv(t, database)
		var at atomic.Pointer[server]
		at.Store(h.server)
		tasks := make([]string, n) // run ids
		var all sync.WaitGroup
		for thread := range threads {
			all.Go(func() {
				for i := thread; i < n; i += threads {
					tasks[i] = enqueue(t, &at, fmt.Sprintf("task%d", i), fmt.Sprintf("thread%d", thread), i == thread)
				}
			})
		}
		enqueued := make(chan struct{})
		go func() { all.Wait(); close(enqueued) }()
		for kill := 1; ; {
			done := h.agentCalls()
			if done >= kill*n/(kills+1) && kill <= kills {
				h.kill()
				h.start(program.Shipped)
				at.Store(h.server)
				kill++
				continue
			}
			select {
			case <-enqueued:
				if kill > kills {
					h.worked(t, tasks, threads)
					return
				}
			default:
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// enqueue puts one prompt into the queue, again and again until a server has taken it: a request that is repeated is the
// same one. Every thread has a first prompt that takes a while.
func enqueue(t *testing.T, at *atomic.Pointer[server], request, thread string, slow bool) string {
	prompt := "count 1 1ms"
	if slow {
		prompt = "count 5 20ms"
	}
	body := fmt.Appendf(nil, `{"request_id":%q,"session_id":%q,"message":{"content":%q}}`, request, thread, prompt)
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s is not taken", request)
			return ""
		}
		resp, err := http.Post(at.Load().url+"/v1/runs", "application/json", bytes.NewReader(body))
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var out struct {
			RunID string `json:"run_id"`
		}
		if err == nil && resp.StatusCode == http.StatusAccepted && json.Unmarshal(raw, &out) == nil {
			return out.RunID
		}
	}
}

func (h *serverEnv) agentCalls() int {
	h.agent.mu.Lock()
	defer h.agent.mu.Unlock()
	return len(h.agent.order)
}

// worked waits until every task is over, and checks what became of them.
func (h *serverEnv) worked(t *testing.T, tasks []string, threads int) {
	t.Helper()
	done, broken := 0, 0
	for end := time.Now().Add(5 * time.Minute); len(tasks) > done+broken; time.Sleep(200 * time.Millisecond) {
		done, broken = 0, 0
		for _, id := range tasks {
			var run struct {
				Status string
				Code   string `json:"error_code"`
			}
			if found, err := h.get("/v1/runs/"+id, &run); err != nil || !found {
				t.Fatalf("%s is lost: %v", id, err)
			}
			switch {
			case run.Status == "DONE":
				done++
			case run.Status == "FAILED" && run.Code == "server_restarted":
				broken++
			case run.Status == "FAILED" || run.Status == "CANCELLED":
				t.Fatalf("%s is %+v", id, run)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d tasks are done, %d were broken off", done, len(tasks), broken)
		}
	}
	if most := h.agent.most(); most > 1 {
		t.Errorf("a task was dispatched %d times", most)
	}
	place := make(map[string]int)
	h.agent.mu.Lock()
	for i, id := range h.agent.order {
		place[id] = i + 1
	}
	h.agent.mu.Unlock()
	for i := threads; i < len(tasks); i++ {
		before, after := place[tasks[i-threads]], place[tasks[i]]
		if before > 0 && after > 0 && before > after {
			t.Errorf("task %d came to its agent before task %d of its thread", i, i-threads)
		}
	}
	t.Logf("%d tasks: %d done, %d broken off by kills, %d calls of the agent", len(tasks), done, broken, len(place))
}
