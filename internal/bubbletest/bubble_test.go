package bubbletest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// With the race detector this crashed the program nearly always, when bubbles ran on all processors.
func TestTimersOfOneMoment(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var fired atomic.Int64
	const each, goroutines = 20_000, 4
	Test(t, func(*testing.T) {
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range each {
					time.AfterFunc(0, func() { fired.Add(1) })
				}
			})
		}
		all.Wait()
		Wait()
	})
	if fired.Load() != each*goroutines {
		t.Errorf("%d timers fired, of %d", fired.Load(), each*goroutines)
	}
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d processors after the bubble, %d before", now, before)
	}
}

// Bubbles beside each other keep to one processor until the last has ended.
func TestBubblesBesideEachOther(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	var o one
	o.enter()
	o.enter()
	o.leave()
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("%d processors while a bubble is left", got)
	}
	o.leave()
	if got := runtime.GOMAXPROCS(0); got != 2 {
		t.Errorf("%d processors after the last bubble", got)
	}
}
