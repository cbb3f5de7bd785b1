// Package bubbletest runs a test on a clock of its own (testing/synctest): time stands still while a goroutine of the
// test can go on, and jumps to the next timer when all wait. Tests use it instead of testing/synctest, which the linter
// refuses elsewhere: with the race detector it holds a bubble to one processor.
package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble, and returns when every goroutine that f started has ended.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raced {
		narrow.enter()
		defer narrow.leave()
	}
	synctest.Test(t, f)
}

// Wait returns when all other goroutines of the bubble wait for each other or for the clock.
func Wait() { synctest.Wait() }

// one keeps the program to a single processor while anybody needs that. Two timers of a bubble that fire at the same
// moment on two processors share one stack of the race detector, and it crashes: SIGSEGV or "CHECK failed" in a test
// that has no fault (golang/go#78156, open as of Go 1.26). Races are found on one processor too: what the detector
// compares is the order that locks and channels give, not the order in which goroutines happened to run.
type one struct {
	mu     sync.Mutex
	users  int
	before int
}

var narrow one

func (o *one) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == 0 {
		o.before = runtime.GOMAXPROCS(1)
	}
	o.users++
}

func (o *one) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users--
	if o.users == 0 {
		runtime.GOMAXPROCS(o.before)
	}
}
