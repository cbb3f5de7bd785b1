package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	drainedRuns  = 150 // that end while the server drains
	drainedCount = 30  // how far the agent counts in each of them
	endlessRuns  = 10  // that do not end
)

// drains makes a server wait for work under way; the other servers of the tests do not wait.
const drains = "AQUEDUCT_DRAIN=30s"

// TestSIGTERMDrains asks a server with 150 Runs under way to end. It refuses new work. Every Run that ends in time ends well at
// its client. A second signal ends the other Runs. Their streams are cut at a position from which their clients continue at the
// next server. A question that waits for a person does not delay the end, and is answered at the next server.
func TestSIGTERMDrains(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		h := &serverEnv{t: t, database: database, agent: newAgent(t)}
		h.server = h.another(program.Shipped, drains)
		asked := newLedger(t, "asked", 2)
		if _, err := asked.post(h.server, "asked-r", "ask 2"); err != nil {
			t.Fatal(err)
		}
		runs := h.begin(drainedRuns, "count", fmt.Sprintf("count %d 50ms", drainedCount), drainedCount)
		endless := h.begin(endlessRuns, "endless", "hang", 0)
		h.signal(syscall.SIGTERM)
		h.refusesPrompts()
		for _, r := range runs {
			if err := <-r.ended; err != nil {
				t.Errorf("a run that ended in time: its stream ended with %v", err)
			} else if last := r.all[len(r.all)-1]; last.kind() != "RUN_FINISHED" {
				t.Errorf("a run that ended in time ended with %s", last.data)
			}
		}
		h.signal(syscall.SIGTERM) // the others would not end
		h.gone(20 * time.Second)
		if h.status != nil {
			t.Errorf("the server left with %v\n%s", h.status, h.log())
		}
		h.server = h.another(program.Shipped)
		for _, r := range endless {
			if err := <-r.ended; err == nil {
				t.Error("the stream of a run that goes on was closed as if it had ended")
			}
			r.resumes(h.server)
		}
		for _, r := range runs {
			r.audit(h)
		}
		asked.audit(h)
		if most := h.agent.most(); most > 1 {
			t.Errorf("a dispatch reached the agent %d times", most)
		}
		if t.Failed() {
			t.Logf("the server that followed:\n%s", h.log())
		}
	})
}

// running is a Run that a client reads.
type running struct {
	*ledger
	run   string
	all   []event
	ended chan error // nil at a clean end
}

// begin begins Runs, and returns when each has shown its client its first words.
func (h *serverEnv) begin(n int, kind, text string, count int) (all []*running) {
	h.t.Helper()
	var begun sync.WaitGroup
	for i := range n {
		r := &running{ledger: newLedger(h.t, fmt.Sprint(kind, "-", i), count), run: fmt.Sprint(kind, "-", i, "-r"), ended: make(chan error, 1)}
		all = append(all, r)
		begun.Add(1)
		s := h.server
		go func() {
			started := sync.OnceFunc(begun.Done)
			defer started()
			in, err := s.chat(r.thread, r.run, text)
			if err != nil {
				r.ended <- err
				return
			}
			defer in.close()
			for {
				e, err := in.next()
				if err != nil {
					if errors.Is(err, io.EOF) {
						err = nil
					}
					r.ended <- err
					return
				}
				r.note(e)
				if r.all = append(r.all, e); e.kind() == "TEXT_MESSAGE_CONTENT" {
					started()
				}
			}
		}()
	}
	begun.Wait()
	return all
}

// refusesPrompts waits until the server is not ready. Then it checks that the server refuses new work and serves reads.
func (h *serverEnv) refusesPrompts() {
	h.t.Helper()
	for {
		resp, err := h.do(h.t.Context(), "GET", "/readyz", nil)
		if err != nil {
			h.t.Fatalf("a server that drains does not answer: %v", err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
	}
	for path, body := range map[string][]byte{
		"/api/agui/chat": prompt("late", "late-r", "count 1"), "/v1/runs": []byte(`{"request_id":"late","message":{"content":"count 1"}}`),
	} {
		resp, err := h.do(h.t.Context(), "POST", path, body)
		if err != nil {
			h.t.Fatal(err)
		}
		var problem struct{ Code string }
		_ = json.NewDecoder(resp.Body).Decode(&problem)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || problem.Code != "shutting_down" {
			h.t.Errorf("POST %s to a server that drains: HTTP %d, code %q, Retry-After %q", path, resp.StatusCode, problem.Code, resp.Header.Get("Retry-After"))
		}
	}
	if found, err := h.get("/api/threads/asked", new(threadInfo)); !found || err != nil {
		h.t.Errorf("a server that drains does not read a thread: %v", err)
	}
}

// resumes continues the client's stream after its position, to the end of the Run. No event is missing or doubled.
func (r *running) resumes(s *server) {
	r.t.Helper()
	last := r.all[len(r.all)-1].id
	in, err := s.stream("GET", "/api/runs/"+r.run+"/events", nil, "Last-Event-ID", fmt.Sprint(last))
	if err != nil {
		r.t.Error(err)
		return
	}
	rest, err := r.drain(in)
	if err != nil || len(rest) == 0 || rest[0].id != last+1 {
		r.t.Errorf("thread %s, resumed after %d: %v, %d events", r.thread, last, err, len(rest))
		return
	}
	if end := rest[len(rest)-1]; codeOf(end) != "server_restarted" {
		r.t.Errorf("thread %s ended with %s", r.thread, end.data)
	}
}

// TestRollingRestart: three servers of one database are replaced one after the other, by SIGTERM, while clients prompt
// through a balancer that sends requests to those that are ready. Every Run ends well.
func TestRollingRestart(t *testing.T) {
	h := &serverEnv{t: t, database: storetest.Postgres(t), agent: newAgent(t)}
	site := &balanced{t: t}
	start := func(name string) *server { return h.another(program.Shipped, drains, "AQUEDUCT_NAME="+name) }
	for i := range 3 {
		site.put(i, start(fmt.Sprint("old-", i)))
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() { site.prompts(i, stop) })
	}
	for i := range 3 {
		for began := site.done.Load(); site.done.Load() < began+60 && !t.Failed(); {
			time.Sleep(5 * time.Millisecond) // the clients work meanwhile
		}
		old := site.at(i)
		old.signal(syscall.SIGTERM)
		old.gone(40 * time.Second)
		if !strings.Contains(old.log(), "turns_left=0") {
			t.Errorf("the server left turns behind:\n%s", old.log())
		}
		site.put(i, start(fmt.Sprint("new-", i)))
	}
	close(stop)
	clients.Wait()
	t.Logf("%d runs ended well, %d came back with their position, %d requests were sent elsewhere", site.done.Load(), site.resumed.Load(), site.moved.Load())
	if most := h.agent.most(); most > 1 {
		t.Errorf("a dispatch reached the agent %d times", most)
	}
}

// balanced is three servers with a balancer in their clients.
type balanced struct {
	t       testing.TB
	mu      sync.Mutex
	servers [3]*server

	done, resumed, moved atomic.Int64
}

func (b *balanced) put(i int, s *server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers[i] = s
}

func (b *balanced) at(i int) *server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.servers[i%3]
}

// prompts has one client prompt in a thread of its own, each time at another server.
func (b *balanced) prompts(client int, stop <-chan struct{}) {
	const count = 10
	for round := 0; ; round++ {
		select {
		case <-stop:
			return
		default:
		}
		run := fmt.Sprintf("c%d-r%d", client, round)
		if all, err := b.prompt(client+round, fmt.Sprint("c", client), run, fmt.Sprintf("count %d 30ms", count)); err != nil {
			b.t.Errorf("run %s: %v", run, err)
			return
		} else if last := all[len(all)-1]; last.kind() != "RUN_FINISHED" || len(strings.Fields(text(all))) != count {
			b.t.Errorf("run %s ended with %s, text %q", run, last.data, text(all))
			return
		}
		b.done.Add(1)
	}
}

// prompt posts one prompt and reads its Run to the end. A request that a server refuses, or does not answer, goes to the
// next one, as a balancer sends it; a stream that is cut is resumed with its position.
func (b *balanced) prompt(at int, thread, run, words string) (all []event, err error) {
	var in *stream
	for tries := 0; in == nil; tries++ {
		if in, err = b.at(at+tries).chat(thread, run, words); err != nil {
			b.moved.Add(1)
			if tries == 300 {
				return nil, err
			}
			time.Sleep(20 * time.Millisecond) // as Retry-After, in small
		}
	}
	for tries := 0; ; tries++ {
		err := b.read(in, &all)
		if len(all) > 0 && all[len(all)-1].terminal() {
			return all, nil
		}
		if tries == 300 {
			return nil, fmt.Errorf("the stream breaks off after %d events: %w", len(all), err)
		}
		b.resumed.Add(1)
		last := int64(0)
		if len(all) > 0 {
			last = all[len(all)-1].id
		}
		for in = nil; in == nil; tries++ {
			in, err = b.at(at+tries).stream("GET", fmt.Sprintf("/api/runs/%s/events?after=%d", run, last), nil)
			if err != nil && tries >= 300 {
				return nil, err
			}
		}
	}
}

func (b *balanced) read(in *stream, all *[]event) error {
	defer in.close()
	for {
		e, err := in.next()
		if err != nil {
			return err
		}
		*all = append(*all, e)
	}
}

// TestDrainDoesNotWaitForPeople: agents that wait within their Runs for a person's decision do not hold up the end of
// their server, and the questions are left open until then.
func TestDrainDoesNotWaitForPeople(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		s := newToolEnv(t, database, asksFirst)
		s.start(program.Shipped, append(s.env, "AQUEDUCT_DRAIN=1h")...)
		for i := range 3 {
			on := s.begin(s.server, fmt.Sprint("T", i))
			if call := s.pay(on); call.Status != "pending" {
				t.Fatalf("%+v", call)
			}
		}
		for i := range 3 {
			s.settled(t, fmt.Sprint("T", i)) // its question is shown
		}
		s.signal(syscall.SIGTERM)
		s.gone(time.Minute)
		if !strings.Contains(s.log(), "turns_left=0") || s.status != nil {
			t.Errorf("the server left with %v\n%s", s.status, s.log())
		}
	})
}
