package httpagent

import (
	"sync"
	"time"

	"aqueduct/internal/fault"
)

// limiter ends a call that takes too long: until its first byte, between two frames, or in total. It is paused while the
// Turn waits for a person, whose time to think is not the agent's. Its lock orders the timers' goroutines against pause
// and stop.
type limiter struct {
	idle time.Duration
	end  func(*fault.Error)

	mu     sync.Mutex
	parked bool
	watch  *time.Timer // first byte, then idle
	total  *time.Timer
	until  time.Time     // when total ends
	left   time.Duration // of it, while parked
}

// newLimiter starts both timers. end is called on a timer's goroutine, at most once by each of them.
// The two timers do not know each other; either ends the call by its context, whose cause is the failure.
func newLimiter(l Limits, end func(*fault.Error)) *limiter {
	w := &limiter{idle: l.Idle, end: end, until: time.Now().Add(l.Total)}
	w.watch = time.AfterFunc(l.FirstByte, func() {
		w.over(fault.New(CodeIdle, "The agent said nothing for too long."))
	})
	w.total = time.AfterFunc(l.Total, func() {
		w.over(fault.New(CodeTotal, "The agent took too long."))
	})
	return w
}

// over runs on a timer's goroutine. A timer may fire in the moment in which pause stops it; it then finds the Turn parked
// and does nothing.
func (w *limiter) over(f *fault.Error) {
	w.mu.Lock()
	parked := w.parked
	w.mu.Unlock()
	if !parked {
		w.end(f)
	}
}

// received restarts the idle timeout: a complete frame or comment has arrived.
func (w *limiter) received() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.parked {
		w.watch.Reset(w.idle)
	}
}

// pause stops the timers, or starts them again with what was left of the total.
func (w *limiter) pause(parked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked == parked { // a second call would lose what was left
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

// stop stops the timers for good: a limiter that stays parked starts none again, whatever is still received.
func (w *limiter) stop() { w.pause(true) }
