package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"aqueduct/store/storetest"
)

const (
	rounds      = 3
	defaultSpan = 10 * time.Second
	wornThreads = 10_000 // of the server that was used before
	wornEvents  = 5      // of each (fillThreads)
)

// targets are what keeping everything may cost, in bare relays that keep nothing.
const (
	targetSQLite   = 1.35 // after 10 000 threads too
	targetPostgres = 2.0
)

// side is one server in the comparison.
type side struct {
	name string
	url  string
	pids []int
	cost []float64 // CPU seconds per million deltas, a round each
	rate []float64 // deltas per second
	kept func() (int64, error)
	sent int64
}

// BenchmarkFlood is 32 streams of runs of 200 deltas, as fast as they go, everything kept
// before it is sent.
func BenchmarkFlood(b *testing.B) {
	span := defaultSpan
	if s := os.Getenv("AQUEDUCT_BENCH_SPAN"); s != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			b.Fatal(err)
		}
	}
	binary := shipped(b)
	stub := startRole(b, "stub", "")
	bare := startRole(b, "relay", stub.url)
	file := filepath.Join(b.TempDir(), "bench.db")
	lite := startServer(b, binary, stub.url, "sqlite:"+file)
	worn := filepath.Join(b.TempDir(), "worn.db")
	used := startServer(b, binary, stub.url, "sqlite:"+worn)
	fillThreads(b, "sqlite", "file:"+worn+"?_pragma=busy_timeout(60000)", wornThreads, "'local'")
	b.Setenv("AQUEDUCT_TEST_FSYNC", "on") // a figure without it would be of another database
	dsn := storetest.Postgres(b)
	pg := startServer(b, binary, stub.url, dsn)
	sides := []*side{
		{name: "bare relay", url: bare.url, pids: []int{bare.pid}},
		{name: "aqueduct, SQLite", url: lite.url, pids: []int{lite.pid}, kept: countKept("sqlite", file)},
		{name: "aqueduct, SQLite, 10 000 threads", url: used.url, pids: []int{used.pid}, kept: func() (int64, error) {
			n, err := countKept("sqlite", worn)()
			return n - wornThreads*wornEvents, err
		}},
		{name: "aqueduct, PostgreSQL", url: pg.url, pids: []int{pg.pid, postmaster(b, dsn)}, kept: countKept("pgx", dsn)},
	}
	for round := range rounds {
		for _, s := range sides {
			s.measure(b, span)
			b.Logf("round %d: %s", round+1, s.latest())
		}
	}
	for _, s := range sides[1:] {
		s.checkKept(b)
	}
	fmt.Print(table(sides))
	check(b, sides[1], sides[0], targetSQLite)
	check(b, sides[2], sides[0], targetSQLite)
	check(b, sides[3], sides[0], targetPostgres)
}

func (s *side) measure(b *testing.B, span time.Duration) {
	before := s.cpu(b)
	n, took, err := flood(context.Background(), s.url, span)
	if err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
	time.Sleep(settleDown)
	used := s.cpu(b) - before
	s.sent += n
	s.cost = append(s.cost, used.Seconds()/(float64(n)/1e6))
	s.rate = append(s.rate, float64(n)/took.Seconds())
}

func (s *side) cpu(b *testing.B) (used time.Duration) {
	for _, pid := range s.pids {
		c, err := cpuOf(pid)
		if err != nil {
			b.Fatal(err)
		}
		used += c
	}
	return used
}

func (s *side) latest() string {
	return fmt.Sprintf("%-22s %6.2f CPU s per million, %8.0f events/s", s.name, s.cost[len(s.cost)-1], s.rate[len(s.rate)-1])
}

// eventsAroundDeltas are RUN_STARTED, TEXT_MESSAGE_START and END, and RUN_FINISHED.
const eventsAroundDeltas = 4

// checkKept counts the events in the database: a figure for what is not there is none.
func (s *side) checkKept(b *testing.B) {
	want := s.sent + s.sent/deltasPerRun*eventsAroundDeltas
	if got, err := s.kept(); err != nil || got != want {
		b.Fatalf("%s: %d events kept, %d expected, %v", s.name, got, want, err)
	}
}

func countKept(driver, dsn string) func() (int64, error) {
	return func() (n int64, err error) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		return n, db.QueryRow("SELECT coalesce(sum(n), 0) FROM events").Scan(&n)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func table(sides []*side) string {
	var t strings.Builder
	t.WriteString("| server | CPU s per million events | × bare relay | events/s |\n| --- | --- | --- | --- |\n")
	unit := median(sides[0].cost)
	for _, s := range sides {
		fmt.Fprintf(&t, "| %s | %.2f [%.2f-%.2f] | %.2f | %s |\n", s.name, median(s.cost), slices.Min(s.cost), slices.Max(s.cost),
			median(s.cost)/unit, strconv.FormatFloat(median(s.rate), 'f', 0, 64))
	}
	return t.String()
}

func check(b *testing.B, s, unit *side, target float64) {
	ratio := median(s.cost) / median(unit.cost)
	b.ReportMetric(ratio, strings.ReplaceAll(strings.ReplaceAll(s.name, ", ", "-"), " ", "-")+"-x-bare")
	if ratio > target {
		b.Errorf("%s costs %.2f bare relays, the target is %.2f", s.name, ratio, target)
	}
}
