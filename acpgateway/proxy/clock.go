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
func newClock(d time.Duration, over func()) *clock {
	return &clock{left: d, since: time.Now(), timer: time.AfterFunc(d, over)}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops++; c.stops == 1 && c.timer.Stop() {
		c.left -= time.Since(c.since)
		c.since = time.Time{}
	}
}

func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
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
