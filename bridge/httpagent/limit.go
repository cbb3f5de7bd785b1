package httpagent

import (
	"sync"
	"time"

	"aqueduct/bridge"
)

// limiter ends a call that takes too long: without a frame, or in all. It stands still
// while the Turn is parked, when it is a person who takes long.
type limiter struct {
	idle time.Duration
	end  func(*bridge.Failure)

	mu     sync.Mutex
	parked bool
	watch  *time.Timer // first byte, then idle
	total  *time.Timer
	until  time.Time     // when total ends
	left   time.Duration // of it, while parked
}

func newLimiter(l Limits, end func(*bridge.Failure)) *limiter {
	w := &limiter{idle: l.Idle, end: end, until: time.Now().Add(l.Total)}
	w.watch = time.AfterFunc(l.FirstByte, func() {
		w.over(&bridge.Failure{Code: CodeIdle, Message: "The agent said nothing for too long."})
	})
	w.total = time.AfterFunc(l.Total, func() {
		w.over(&bridge.Failure{Code: CodeTotal, Message: "The agent took too long."})
	})
	return w
}

// over runs on a timer's goroutine; one that ran out just before the Turn was parked does
// not count.
func (w *limiter) over(f *bridge.Failure) {
	w.mu.Lock()
	parked := w.parked
	w.mu.Unlock()
	if !parked {
		w.end(f)
	}
}

// heard says that something complete has come.
func (w *limiter) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.parked {
		w.watch.Reset(w.idle)
	}
}

func (w *limiter) pause(parked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked == parked {
		return
	}
	w.parked = parked
	if parked {
		w.watch.Stop()
		w.total.Stop()
		w.left = max(0, time.Until(w.until))
		return
	}
	w.watch.Reset(w.idle)
	w.until = time.Now().Add(w.left)
	w.total.Reset(w.left)
}

func (w *limiter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = true // nothing starts them again
	w.watch.Stop()
	w.total.Stop()
}
