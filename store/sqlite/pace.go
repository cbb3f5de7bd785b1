package sqlite

import "time"

const (
	// paceEvery keeps a busy writer at about 250 commits a second: each costs a sync, and
	// what comes meanwhile shares the next.
	paceEvery = 4 * time.Millisecond
	// paceBurst is how many commits may follow one another at once after a quiet time, so
	// that a single chat never waits.
	paceBurst = 16
)

// pace is a token bucket over commits. The time at which it will be full stands for how many tokens are left: each
// commit moves it by paceEvery, and wait returns when it is no further off than paceBurst of them.
type pace struct {
	full time.Time // when the bucket is full again
}

// wait takes a token, sleeping until there is one. The writer's goroutine alone calls it.
func (p *pace) wait() {
	now := time.Now()
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(paceEvery)
	if over := p.full.Sub(now) - paceBurst*paceEvery; over > 0 {
		time.Sleep(over)
	}
}
