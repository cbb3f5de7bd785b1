package acpgateway

import (
	"sync"
	"time"
)

// promptClock is the time that a prompt has used. It stands still while a person is asked. A Turn's goroutine pauses it,
// requests that answer a question resume it.
// A person may take a day to answer, and the agent's hour must not be over then.
type promptClock struct {
	mu      sync.Mutex
	since   time.Time     // it runs since; zero while it stands still
	used    time.Duration // before that
	resumed time.Time     // a question was answered, last
}

func (pc *promptClock) start() {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	pc.since = time.Now()
}

func (pc *promptClock) pause() {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if !pc.since.IsZero() {
		pc.used += time.Since(pc.since)
		pc.since = time.Time{}
	}
}

func (pc *promptClock) resume() {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	pc.resumed = time.Now()
	if pc.since.IsZero() {
		pc.since = pc.resumed
	}
}

// resumedAt is when a question was last answered.
func (pc *promptClock) resumedAt() time.Time {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	return pc.resumed
}

// elapsed is the time used so far; running is false while the clock stands still.
func (pc *promptClock) elapsed() (used time.Duration, running bool) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.since.IsZero() {
		return 0, false
	}
	return pc.used + time.Since(pc.since), true
}
