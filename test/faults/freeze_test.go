package faults_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// TestFreeze: the server is stopped while it writes, a new one of the same name started
// beside it, and the old one continued: it is fenced, reports it and leaves by itself, and
// the log has lost nothing and nothing twice.
func TestFreeze(t *testing.T) {
	h := newServerEnv(t, storetest.Postgres(t))
	seen, broke := 0, 0
	for round := range 6 {
		var all sync.WaitGroup
		ledgers := crowd(h, fmt.Sprint("freeze", round), &all)
		time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
		old := h.server
		old.signal(syscall.SIGSTOP)
		begun := time.Now()
		h.start(program.Shipped)
		took := time.Since(begun)
		if round%2 == 0 { // the new one writes on before the old one returns
			for _, l := range ledgers {
				l.mu.Lock() // what the clients saw before
				n := len(l.seen)
				l.mu.Unlock()
				if n > 0 {
					h.settled(t, l.thread)
				}
			}
		}
		old.signal(syscall.SIGCONT)
		old.gone(20 * time.Second)
		all.Wait()
		if old.status == nil || !strings.Contains(old.log(), "has taken over") {
			t.Errorf("the old process leaves with %v and says\n%s", old.status, old.log())
		}
		for _, l := range ledgers {
			log := l.audit(h)
			seen += len(l.seen)
			broke += broken(log)
		}
		if t.Failed() {
			t.Fatalf("round %d\nold:\n%s\nnew:\n%s", round, old.log(), h.log())
		}
		t.Logf("round %d: the new process served after %v", round, took.Round(time.Millisecond))
	}
	if most := h.agent.most(); most > 1 {
		t.Errorf("a dispatch reached the agent %d times", most)
	}
	t.Logf("%d events seen, %d Runs broken off", seen, broke)
}

// TestFreezeAtFailpoints stops the server right before and right after a commit: what it
// was about to write is refused when it returns, and what it had written is there once.
func TestFreezeAtFailpoints(t *testing.T) {
	h := newServerEnv(t, storetest.Postgres(t))
	h.kill()
	for _, point := range []string{"before_commit", "after_commit"} {
		for _, n := range []int{1, 2, 4, 7} {
			name := fmt.Sprintf("%s-%d", point, n)
			h.start(fused, fmt.Sprintf("AQUEDUCT_FAILPOINT=%s:%d:stop", point, n))
			old, l, other := h.server, newLedger(t, name, 10), newLedger(t, name+"-other", 1)
			var all sync.WaitGroup
			all.Go(func() { live(l, other, old) })
			old.stopped()
			h.start(program.Shipped)
			before := l.audit(h)
			other.audit(h)
			old.signal(syscall.SIGCONT)
			old.gone(20 * time.Second)
			all.Wait()
			if !strings.Contains(old.log(), "has taken over") {
				t.Errorf("%s: the old process says\n%s", name, old.log())
			}
			if after := l.audit(h); len(after) != len(before) {
				t.Errorf("%s: %d events before the old process returned, %d after", name, len(before), len(after))
			}
			if t.Failed() {
				t.Fatal(name, "\n", h.log())
			}
			h.kill()
		}
	}
	if most := h.agent.most(); most > 1 {
		t.Errorf("a dispatch reached the agent %d times", most)
	}
}
