package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// TestQueue: prompts of three users for two agents wait in the queue while servers are killed again and again: the one of an SQLite
// file, or by turns one of the two on a PostgreSQL database. Each prompt is dispatched at most once, those of a thread in their
// order, and none is lost: what was not at its agent when its server died is worked on afterwards.
func TestQueue(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		const kills = 8
		q := newQueueEnv(t, database, queued(t))
		var all sync.WaitGroup
		for thread := range queueThreads {
			all.Go(func() {
				for i := thread; i < len(q.tasks); i += queueThreads {
					q.tasks[i] = q.enqueue(i)
				}
			})
		}
		enqueued := make(chan struct{})
		go func() { all.Wait(); close(enqueued) }()
		began := time.Now()
		for kill := 1; ; {
			if len(q.order()) >= kill*len(q.tasks)/(kills+1) && kill <= kills {
				q.killOne(kill % len(q.servers))
				kill++
				continue
			}
			select {
			case <-enqueued:
				if kill > kills {
					q.worked(began)
					return
				}
			default:
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

const (
	// queueThreads are dealt out to the users and agents.
	queueThreads = 42
	queueUsers   = 3
	queueAgents  = 2
)

// queueEnv is a database with one or two servers, which die and come back, users and agents.
type queueEnv struct {
	*serverEnv
	t       *testing.T
	agents  [queueAgents]*agent
	names   []string // of the servers
	servers []atomic.Pointer[server]
	tokens  [queueUsers]string
	tasks   []string // run ids
}

func newQueueEnv(t *testing.T, database string, tasks int) *queueEnv {
	q := &queueEnv{t: t, tasks: make([]string, tasks), names: []string{"first", "second"}}
	for i := range q.agents {
		q.agents[i] = newAgent(t)
	}
	if strings.HasPrefix(database, "sqlite") {
		q.names = q.names[:1]
	}
	key := filepath.Join(t.TempDir(), "key")
	q.serverEnv = &serverEnv{t: t, database: database, agent: q.agents[0], flags: []string{
		"--agent", "other=" + q.agents[1].URL, "--auth", "token", "--signing-key-file", key,
	}}
	q.servers = make([]atomic.Pointer[server], len(q.names))
	for i := range q.servers {
		q.startOne(i)
	}
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for i := range q.tokens {
		out, err := exec.Command(path, "token", "issue", "--type", "user", "--tenant", "acme", "--user", fmt.Sprintf("user%d", i), "--signing-key-file", key).Output()
		if err != nil {
			t.Fatal(err)
		}
		q.tokens[i] = strings.TrimSpace(string(out))
	}
	return q
}

// startOne starts the server of a place, which fences its namesake before it.
func (q *queueEnv) startOne(i int) {
	q.t.Helper()
	q.servers[i].Store(q.another(program.Shipped, "AQUEDUCT_NAME="+q.names[i]))
}

func (q *queueEnv) killOne(i int) {
	q.t.Helper()
	q.servers[i].Load().kill()
	q.startOne(i)
}

// order is the runs that came to their agents, each agent's in their order.
func (q *queueEnv) order() (runs []string) {
	for _, a := range q.agents {
		a.mu.Lock()
		runs = append(runs, a.order...)
		a.mu.Unlock()
	}
	return runs
}

// send makes a request of the user that a task is of, at the servers by turns.
func (q *queueEnv) send(i, try int, method, path string, body []byte) (status int, answer []byte, err error) {
	at := q.servers[(i+try)%len(q.servers)].Load()
	resp, err := at.do(context.Background(), method, path, body, "Authorization", "Bearer "+q.tokens[i%queueThreads%queueUsers])
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// enqueue puts one prompt into the queue, again and again until a server has taken it: a request that is repeated is the
// same one. Every thread has a first prompt that takes a while.
func (q *queueEnv) enqueue(i int) string {
	prompt, thread := "count 1 1ms", i%queueThreads
	if i == thread {
		prompt = "count 5 20ms"
	}
	agent := []string{"fake", "other"}[thread/queueUsers%queueAgents]
	body := fmt.Appendf(nil, `{"request_id":"task%d","session_id":"thread%d","agent_id":%q,"priority":%d,"message":{"content":%q}}`, i, thread, agent, thread%5, prompt)
	for try, end := 0, time.Now().Add(5*time.Minute); ; try++ {
		if time.Now().After(end) {
			q.t.Errorf("task %d is not taken", i)
			return ""
		}
		status, raw, err := q.send(i, try, http.MethodPost, "/v1/runs", body)
		var out struct {
			RunID string `json:"run_id"`
		}
		if err == nil && status == http.StatusAccepted && json.Unmarshal(raw, &out) == nil {
			return out.RunID
		}
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			q.t.Errorf("task %d: HTTP %d %s", i, status, bytes.TrimSpace(raw))
			return ""
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// worked waits until every task is over, and checks what became of them.
func (q *queueEnv) worked(began time.Time) {
	q.t.Helper()
	open, done, broken := make(map[int]string), 0, 0
	for i, id := range q.tasks {
		open[i] = id
	}
	for end := time.Now().Add(5 * time.Minute); len(open) > 0; time.Sleep(200 * time.Millisecond) {
		for i, id := range open {
			switch q.status(i, id) {
			case "DONE":
				done++
				delete(open, i)
			case "server_restarted":
				broken++
				delete(open, i)
			}
		}
		if time.Now().After(end) {
			q.t.Fatalf("%d of %d tasks are done, %d were broken off", done, len(q.tasks), broken)
		}
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	place := q.dispatched()
	for i := queueThreads; i < len(q.tasks); i++ {
		before, after := place[q.tasks[i-queueThreads]], place[q.tasks[i]]
		if before > 0 && after > 0 && before > after {
			q.t.Errorf("task %d came to its agent before task %d of its thread", i, i-queueThreads)
		}
	}
	q.t.Logf("%d tasks of %d users for %d agents, %d servers: %d done, %d broken off by kills, %d calls of the agents, in %v",
		len(q.tasks), queueUsers, queueAgents, len(q.servers), done, broken, len(place), took)
}

// status is how far a task is; one that a kill broke off has that as its status.
func (q *queueEnv) status(i int, id string) string {
	q.t.Helper()
	status, raw, err := q.send(i, 0, http.MethodGet, "/v1/runs/"+id, nil)
	var run struct {
		Status string
		Code   string `json:"error_code"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(raw, &run) != nil {
		q.t.Fatalf("task %d, %s, is lost: HTTP %d %s, %v", i, id, status, raw, err)
	}
	switch {
	case run.Status == "FAILED" && run.Code == "server_restarted":
		return run.Code
	case run.Status == "FAILED" || run.Status == "CANCELLED":
		q.t.Fatalf("task %d is %+v", i, run)
	}
	return run.Status
}

// dispatched is the place of each run among those that came to its agent; none came twice.
func (q *queueEnv) dispatched() map[string]int {
	q.t.Helper()
	place := make(map[string]int)
	for i, id := range q.order() {
		if place[id] > 0 {
			q.t.Errorf("%s was dispatched again", id)
		}
		place[id] = i + 1
	}
	return place
}
