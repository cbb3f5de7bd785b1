package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	// memorySpan is how long the load lasts in "make test"; AQUEDUCT_MEMORY is how long it lasts in "make soak".
	memorySpan = 20 * time.Second
	// memoryGrowth is the most that the last half of the load may add.
	memoryGrowth = 10 << 20
	// memoryWorkers prompt one after the other: a new thread, and then one of memoryAge prompts ago.
	memoryWorkers = 4
	memoryAge     = 50
	// memoryFill fills the caches that are bounded by bytes: the newest events of all threads and the transcripts of those that talk
	// (64 MiB each): so many threads with two Runs of so many pieces of 8 KiB.
	memoryFill   = 10
	memoryPieces = 900
	// memoryWindows is how many parts of the last half are compared, memorySamples how many looks there are in each.
	memoryWindows = 5
	memorySamples = 40
)

// TestMemoryLevelsOff: under a steady load of Runs on ever new threads and on old ones the memory of the server levels off,
// once what is bounded by bytes is full. What is compared is the least heap in each part of the last half, just after a
// collection, and in "make soak" the resident memory too, whose pages the runtime returns over minutes.
func TestMemoryLevelsOff(t *testing.T) {
	span, soak := memorySpan, false
	if text := os.Getenv("AQUEDUCT_MEMORY"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		soak = true
	}
	h := &serverEnv{t: t, database: "sqlite:" + storetest.SQLite(t), agent: newAgent(t)}
	h.start(program.Shipped, "GOGC=25") // collections often enough to see the heap after one
	for i := range memoryFill {
		for run := range 2 {
			if _, err := newLedger(t, fmt.Sprint("large", i), memoryPieces).post(h.server, fmt.Sprint("large", i, "-", run), fmt.Sprint("bulk ", memoryPieces)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), span)
	defer stop()
	var all sync.WaitGroup
	var runs atomic.Int64
	for worker := range memoryWorkers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				thread := n
				if n%2 == 1 {
					thread = max(0, n-1-memoryAge)
				}
				l := newLedger(t, fmt.Sprint("w", worker, "-", thread), 20)
				if _, err := l.post(h.server, fmt.Sprint("w", worker, "-run", n), "count 20 2ms"); err != nil {
					t.Error(err)
					return
				}
				runs.Add(1)
			}
		})
	}
	select {
	case <-time.After(span / 2):
	case <-ctx.Done():
	}
	var heaps, residents []int64 // of the windows
	for range memoryWindows {
		var heap, resident []int64
		for range memorySamples {
			heap, resident = append(heap, h.gauge("go_memstats_heap_alloc_bytes")), append(resident, h.gauge("process_resident_memory_bytes"))
			time.Sleep(span / 2 / memoryWindows / memorySamples)
		}
		slices.Sort(resident)
		heaps, residents = append(heaps, slices.Min(heap)), append(residents, resident[len(resident)/2])
	}
	all.Wait()
	t.Logf("%d Runs; the last half: least heap %v MiB, resident %v MiB", runs.Load(), mebibytes(heaps), mebibytes(residents))
	if grown := slices.Min(heaps[memoryWindows-2:]) - slices.Min(heaps[:memoryWindows-2]); grown > memoryGrowth {
		t.Errorf("the heap grows by %d KiB in the last half", grown>>10)
	}
	if grown := slices.Max(residents) - slices.Min(residents); soak && grown > memoryGrowth {
		t.Errorf("the resident memory differs by %d KiB in the last half", grown>>10)
	}
}

// gauge is a number of /metrics.
func (s *server) gauge(name string) int64 {
	s.t.Helper()
	resp, err := s.do(context.Background(), "GET", "/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return int64(n)
		}
	}
	s.t.Fatalf("there is no %s", name)
	return 0
}

func mebibytes(sizes []int64) (out []string) {
	for _, n := range sizes {
		out = append(out, fmt.Sprintf("%.1f", float64(n)/(1<<20)))
	}
	return out
}
