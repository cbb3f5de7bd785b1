//go:build !race

// Run by scripts/test-unraced; the reason is there.

package bridge_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// What a parked Turn may cost while its Agent is held.
const (
	parkedTurns      = 200
	parkedGoroutines = 2 // the Session's, and the reader's
	parkedBytes      = 16 << 10
)

// TestToolParkedCost: Turns that wait for a decision about a tool, their Agents held, keep no
// goroutine but their Session's and the reader's, and little memory.
func TestToolParkedCost(t *testing.T) {
	path := storetest.SQLite(t)
	e := newToolEnv(t, func() (store.Store, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) })
	r := e.replicas[0]
	r.agent.holds = true
	if _, err := e.ask(t.Context(), r); err != nil { // what is made once
		t.Fatal(err)
	}
	e.parked(1)
	goroutines, heap, stacks := inUse()
	for range parkedTurns {
		if _, err := e.ask(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	e.parked(1 + parkedTurns)
	g, h, s := inUse()
	each, bytes, stack := float64(g-goroutines)/parkedTurns, (h-heap)/parkedTurns, (s-stacks)/parkedTurns
	t.Logf("a parked Turn with a held Agent: %.2f goroutines, %d bytes of heap, %d of stacks", each, bytes, stack)
	if each > parkedGoroutines+0.05 || bytes > parkedBytes {
		t.Errorf("that is more than %d goroutines or %d bytes", parkedGoroutines, parkedBytes)
	}
}

// inUse is what the process holds when nothing can be collected any more.
func inUse() (goroutines int, heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc), int64(m.StackInuse)
}

// parked waits until so many Turns are paused and their Runs have ended.
func (e *toolEnv) parked(n int) {
	e.t.Helper()
	st := e.replicas[0].store
	for range 2000 {
		sessions, err := st.Sessions(e.t.Context(), store.System(), store.Page{Limit: store.MaxPageLimit})
		if err != nil {
			e.t.Fatal(err)
		}
		done := 0
		for _, s := range sessions {
			run, err := st.LastRun(e.t.Context(), store.System(), s.ID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				e.t.Fatal(err)
			}
			if run.Status == store.RunInterrupted {
				done++
			}
		}
		if done == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatal("the turns do not park")
}

// TestParkedCost: Turns whose Agents asked and ended, to be called again with the answer, keep
// no goroutine at all.
func TestParkedCost(t *testing.T) {
	h := newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		return []bridge.Output{permission("q1"), {End: &bridge.End{Pending: []string{"q1"}}}}
	}})
	h.chat(ask("first", "hi")) // what is made once
	goroutines, heap, _ := inUse()
	for i := range parkedTurns {
		h.chat(ask(fmt.Sprint("t", i), "hi"))
	}
	for range 2000 { // the Sessions' goroutines end after their Runs
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	g, bytes, _ := inUse()
	each, kept := float64(g-goroutines)/parkedTurns, (bytes-heap)/parkedTurns
	t.Logf("a parked Turn whose Agent ended: %.2f goroutines, %d bytes of heap", each, kept)
	if each > 0.05 || kept > parkedBytes {
		t.Errorf("that is more than none, or than %d bytes", parkedBytes)
	}
}
