package proxy

import (
	"sync"
	"time"
)

// clock is a prompt's time. It stands still while a person is asked: that may take longer
// than any agent should.
type clock struct {
	mu    sync.Mutex
	left  time.Duration
	since time.Time // it runs; zero: it stands
	stops int       // open questions
	timer *time.Timer
}

// newClock starts one; over is called when the time has run out.
// over runs on a goroutine of its own and beside the methods, so a pause may come too late for it.
func newClock(d time.Duration, over func()) *clock {
	return &clock{left: d, since: time.Now(), timer: time.AfterFunc(d, over)}
}

// pause stops the time at the first open question; further ones are only counted. Where the timer has fired already
// there is nothing left to stop, and the prompt ends.
func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops++; c.stops == 1 && c.timer.Stop() {
		c.left -= time.Since(c.since)
		c.since = time.Time{}
	}
}

// resume starts the time again when the last question is answered, with what was left.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// since is zero only where pause has stopped the timer. After stop, and where the time had run out before,
	// nothing starts it again.
	if c.stops--; c.stops == 0 && c.since.IsZero() {
		c.since = time.Now()
		c.timer.Reset(c.left)
	}
}

// stop ends it for good.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.since = time.Now() // nothing starts it again
}
