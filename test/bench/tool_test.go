package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// targetTool is what having a tool run may cost, in bare handlers that make the same call.
const targetTool = 3.0

// toolCallers call at once when the processor's time is measured.
const (
	toolCallers = 16
	toolSpan    = 3 * time.Second
	toolAlone   = 200 // calls one after the other, when the latency is
)

// serveCaller is the bare handler: it calls the tool with what it was given, and answers with
// what the tool did.
func serveCaller(l net.Listener, tool string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: toolCallers}}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RunID string          `json:"run_id"`
			Args  json.RawMessage `json:"args"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		out, _ := json.Marshal(map[string]any{"run_id": body.RunID, "args": body.Args})
		resp, err := client.Post(tool, "application/json", bytes.NewReader(out))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		result, _ := io.ReadAll(resp.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"succeeded","result":%s}`, result)
	}))
}

// toolSide is one way of having the tool called.
type toolSide struct {
	name  string
	pids  []int
	urls  []string // one a caller
	heads []http.Header
	runs  []string
}

// BenchmarkTool is an allowed tool that answers at once, called through us on PostgreSQL and
// through a bare handler: CPU a call with many callers, the database's included, and the
// median latency of one caller.
func BenchmarkTool(b *testing.B) {
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer tool.Close()
	turns := make(chan http.Header, toolCallers)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		turns <- r.Header
		<-r.Context().Done()
	}))
	defer agent.Close()
	defer agent.CloseClientConnections()
	file := filepath.Join(b.TempDir(), "tools.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "tools:\n- {name: ok, kind: server_tool, endpoint: %q, policy: {risk: low}}\n", tool.URL), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Setenv("AQUEDUCT_TEST_FSYNC", "on")
	dsn := storetest.Postgres(b)
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--database", dsn, "--agent", "a=" + agent.URL,
		"--tools-file", file, "--outbound", "127.0.0.0/8"}, program.State(b, dsn)...)
	cmd := exec.Command(shipped(b), args...)
	pg, bare := startProcess(b, cmd), startRole(b, "caller", tool.URL)
	through := &toolSide{name: "aqueduct, PostgreSQL", pids: []int{pg.pid, postmaster(b, dsn)}}
	direct := &toolSide{name: "bare handler", pids: []int{bare.pid}}
	for i := range toolCallers {
		body := fmt.Sprintf(`{"threadId":"T%d","runId":"R%d","protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"hi"}]}`, i, i)
		resp, err := http.Post(pg.url+"/api/agui/chat", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		given := <-turns
		through.add(pg.url+"/v1/tools/ok:invoke", given.Get("x-run-id"), given.Get("x-aqueduct-run-token"))
		direct.add(bare.url, given.Get("x-run-id"), "none")
	}
	for round := range rounds {
		var cpu [2]time.Duration
		var median [2]time.Duration
		for i, s := range []*toolSide{direct, through} {
			var err error
			if median[i], err = s.alone(); err != nil {
				b.Fatal(s.name, err)
			}
			each, err := s.crowd()
			if err != nil {
				b.Fatal(s.name, err)
			}
			for _, one := range each {
				cpu[i] += one
			}
			b.Logf("round %d: %-22s %8v CPU a call %v, %8v median latency of one caller", round+1, s.name, cpu[i], each, median[i])
		}
		byCPU, byTime := float64(cpu[1])/float64(cpu[0]), float64(median[1])/float64(median[0])
		b.Logf("round %d: %.1f times the CPU, %.1f times the latency; the target is %.0f", round+1, byCPU, byTime, targetTool)
		b.ReportMetric(byCPU, "x-cpu")
		b.ReportMetric(byTime, "x-latency")
	}
}

func (s *toolSide) add(url, run, token string) {
	s.urls, s.runs = append(s.urls, url), append(s.runs, run)
	s.heads = append(s.heads, http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}})
}

// call is one call, which must succeed.
func (s *toolSide) call(client *http.Client, i int) error {
	body := fmt.Sprintf(`{"run_id":%q,"args":{"path":"/w/a","text":"some words to be worked on"}}`, s.runs[i])
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.urls[i], bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header = s.heads[i]
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Contains(raw, []byte(`"succeeded"`)) {
		err = errors.New(string(raw))
	}
	return err
}

func (s *toolSide) alone() (median time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var all []time.Duration
	for range toolAlone {
		began := time.Now()
		if err := s.call(client, 0); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// used is the processor's time of each process so far.
func (s *toolSide) used() (each []time.Duration, err error) {
	for _, pid := range s.pids {
		one, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		each = append(each, one)
	}
	return each, nil
}

// crowd is what a call costs each process while many call at once.
func (s *toolSide) crowd() (each []time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: toolCallers}}
	defer client.CloseIdleConnections()
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for i := range toolCallers {
		all.Go(func() {
			for end := time.Now().Add(toolSpan); time.Now().Before(end); calls.Add(1) {
				if err := s.call(client, i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	all.Wait()
	if p := failed.Load(); p != nil {
		return nil, *p
	}
	each, err = s.used()
	for i := range each {
		each[i] = (each[i] - before[i]) / time.Duration(calls.Load())
	}
	return each, err
}
