package bench

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/store/storetest"
)

// How a prompt's cost may grow with what there is already.
const (
	targetHistory = 3.0 // with 1 000 messages in its thread, against a thread with two
	targetThreads = 1.1 // on a new thread among 100 000, against one among 100

	longHistory  = 1000
	manyThreads  = 100_000
	sizePrompts  = 120 // of each measurement
	sizeRounds   = 5   // of few and many threads in turn
	longThreads  = 10  // that share the prompts of long histories
	historyWords = 30  // of each message
)

// brief is an agent that reads all it is sent and answers with one delta.
func brief(tb testing.TB) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"yes\"}\n\nevent: done\ndata: {}\n\n")
	}))
	tb.Cleanup(srv.Close)
	return srv.URL
}

// promptOnce posts a prompt and reads its answer to the end.
func promptOnce(tb testing.TB, url, thread, run string) time.Duration {
	body, err := json.Marshal(map[string]any{
		"threadId": thread, "runId": run, "protocolVersion": "1.0", "state": map[string]any{}, "tools": []any{}, "context": []any{},
		"forwardedProps": map[string]any{}, "messages": []any{map[string]any{"id": run, "role": "user", "content": "and?"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	begun := time.Now()
	resp, err := http.Post(url+"/api/agui/chat", "application/json", bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(all, []byte("RUN_FINISHED")) {
		tb.Fatalf("HTTP %d %s %v", resp.StatusCode, all, err)
	}
	return time.Since(begun)
}

// cost is what a prompt takes: CPU of the server and, of PostgreSQL, its database, and the
// median time to its end.
type cost struct{ cpu, latency time.Duration }

func (s *side) prompts(b *testing.B, thread func(i int) string, tag string) cost {
	times := make([]time.Duration, sizePrompts)
	before := s.cpu(b)
	for i := range times {
		times[i] = promptOnce(b, s.url, thread(i), fmt.Sprint(tag, i))
	}
	used := s.cpu(b) - before
	slices.Sort(times)
	return cost{used / sizePrompts, times[len(times)/2]}
}

func (c cost) String() string {
	return fmt.Sprintf("%v CPU, %v", c.cpu.Round(10*time.Microsecond), c.latency.Round(10*time.Microsecond))
}

func ratios(big, small cost) (cpu, latency float64) {
	return float64(big.cpu) / float64(small.cpu), float64(big.latency) / float64(small.latency)
}

// BenchmarkSizeHistory is a prompt on a thread with 1 000 messages against one on a thread
// with two. The agent is sent all of them.
func BenchmarkSizeHistory(b *testing.B) {
	file, dsn := filepath.Join(b.TempDir(), "bench.db"), storetest.Postgres(b)
	agent, binary := brief(b), shipped(b)
	for _, d := range []struct{ name, driver, at, database string }{
		{"SQLite", "sqlite", file, "sqlite:" + file}, {"PostgreSQL", "pgx", dsn, dsn},
	} {
		srv := startServer(b, binary, agent, d.database)
		s := &side{name: d.name, url: srv.url, pids: []int{srv.pid}}
		if d.driver == "pgx" {
			s.pids = append(s.pids, postmaster(b, dsn))
		}
		for i := range sizePrompts {
			promptOnce(b, s.url, fmt.Sprint("small-", i), "first")
		}
		for i := range longThreads {
			promptOnce(b, s.url, fmt.Sprint("long-", i), "first")
		}
		lengthen(b, d.driver, d.at)
		for i := range longThreads { // the first prompt after a restart reads it all
			promptOnce(b, s.url, fmt.Sprint("long-", i), "warm")
		}
		small := s.prompts(b, func(i int) string { return fmt.Sprint("small-", i) }, "p")
		long := s.prompts(b, func(i int) string { return fmt.Sprint("long-", i%longThreads) }, "p")
		cpu, latency := ratios(long, small)
		fmt.Printf("history, %s: 2 messages %v; %d messages %v; × %.2f CPU, × %.2f latency (target ≤ %.1f)\n", d.name, small, longHistory, long, cpu, latency, targetHistory)
		if cpu > targetHistory {
			b.Errorf("%s: a prompt on a long thread costs %.2f of one on a short thread, target %.1f", d.name, cpu, targetHistory)
		}
	}
}

// lengthen gives the long threads messages that are older than their own.
func lengthen(b *testing.B, driver, at string) {
	db, err := sql.Open(driver, at)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Repeat("a line of what was said ", historyWords/6)
	for i := range longThreads {
		for n := range longHistory {
			id, role := fmt.Sprintf("01890000-0000-7000-8000-%04d%08d", i, n), []string{"user", "assistant"}[n%2]
			data, err := json.Marshal(map[string]string{"id": fmt.Sprint("old-", n), "role": role, "content": words})
			if err == nil {
				_, err = tx.Exec(`INSERT INTO messages (message_id, session_id, run_id, external_id, role, output, data, created_at)
					SELECT $1, session_id, '', $2, $3, $4, $5, 1 FROM sessions WHERE external_id = $6`, id, fmt.Sprint("old-", n), role, n%2 == 1, string(data), fmt.Sprint("long-", i))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSizeThreads is a Run on a new thread of a server with 100 000 threads against one of a server with 100, on both
// databases, where one user owns all and where each has an owner of its own: CPU, medians of interleaved rounds.
func BenchmarkSizeThreads(b *testing.B) {
	agent, binary := brief(b), shipped(b)
	for _, kind := range []string{"SQLite", "PostgreSQL"} {
		few := sized(b, kind, binary, agent, 100, "'local'")
		for owners, user := range map[string]string{"one user": "'local'", "many users": "'user-' || i"} {
			many := sized(b, kind, binary, agent, manyThreads, user)
			few.cost, many.cost = nil, nil
			for round := range sizeRounds {
				for _, s := range []*side{few, many} {
					c := s.prompts(b, func(i int) string { return fmt.Sprint(owners, "-", round, "-", i) }, fmt.Sprint(owners, round, "-"))
					s.cost = append(s.cost, c.cpu.Seconds())
				}
			}
			ratio := median(many.cost) / median(few.cost)
			fmt.Printf("threads, %s, %s: a Run takes %.2f ms CPU with 100, %.2f ms with %d: × %.2f (target ≤ %.1f)\n",
				kind, owners, 1e3*median(few.cost), 1e3*median(many.cost), manyThreads, ratio, targetThreads)
			b.ReportMetric(ratio, strings.ReplaceAll(kind+"-"+owners, " ", "-")+"-x")
			if ratio > targetThreads {
				b.Errorf("%s, %s: a Run costs %.2f of one among few threads, target %.1f", kind, owners, ratio, targetThreads)
			}
		}
	}
}

// sized is a server whose database has so many threads that were used once; user is SQL for the owner of thread i.
func sized(b *testing.B, kind, binary, agent string, threads int, user string) *side {
	file := filepath.Join(b.TempDir(), "bench.db")
	database, driver, at := "sqlite:"+file, "sqlite", "file:"+file+"?_pragma=busy_timeout(60000)"
	if kind == "PostgreSQL" {
		database, driver = storetest.Postgres(b), "pgx"
		at = database
	}
	srv := startServer(b, binary, agent, database)
	s := &side{name: kind, url: srv.url, pids: []int{srv.pid}}
	if driver == "pgx" {
		s.pids = append(s.pids, postmaster(b, at))
	}
	fillThreads(b, driver, at, threads, user)
	promptOnce(b, s.url, "warm", "warm")
	time.Sleep(settleDown)
	return s
}

// fillThreads makes threads that were used once.
func fillThreads(b *testing.B, driver, at string, threads int, user string) {
	db, err := sql.Open(driver, at)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	from := fmt.Sprintf(" FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) n", threads)
	for _, insert := range []string{
		"INSERT INTO sessions (session_id, tenant, user_id, external_id, agent_id, created_at, updated_at) SELECT 'old-' || i, 'local', " + user + ", 'old-' || i, 'stub', i, i",
		"INSERT INTO turns (turn_id, session_id, root_agent_id, status, created_at) SELECT 'old-' || i, 'old-' || i, 'stub', 'DONE', i",
		"INSERT INTO runs (run_id, session_id, turn_id, external_id, status, first_seq, last_seq, created_at) SELECT 'old-' || i, 'old-' || i, 'old-' || i, 'run-' || i, 'FINISHED', 1, 5, i",
		"INSERT INTO messages (message_id, session_id, run_id, external_id, role, created_at) SELECT 'old-' || i, 'old-' || i, 'old-' || i, 'm', 'user', i",
		"INSERT INTO records (id, session_id, turn_id, source, type, pos, ts) SELECT 'old-' || i, 'old-' || i, 'old-' || i, 'platform', 'x', 1, i",
		"INSERT INTO events (session_id, last_seq, n, ts, data) SELECT 'old-' || i, 5, 5, i, CAST('{}' AS " + map[string]string{"sqlite": "BLOB", "pgx": "BYTEA"}[driver] + ")",
	} {
		if _, err := db.Exec(insert + from); err != nil {
			b.Fatal(err)
		}
	}
	if driver == "pgx" { // the writes that the filling left are not the prompts' cost
		if _, err := db.Exec("CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
	}
}
