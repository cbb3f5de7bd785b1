// Token buckets by key: how often one user or one address may do something.

package limit

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// mostKeys bounds the buckets of one Brake, at about 200 bytes each. A caller who uses many
// keys evicts the buckets that were used longest ago; that refills them, and nothing else.
const mostKeys = 8192

// Rate is how often something may be done: Burst times at once, and PerSecond times a second
// in the long run. A PerSecond of zero or less sets no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Brake limits how often something may be done for one key, such as an address or a principal: a token bucket a key, in
// bounded memory. The zero Rate never refuses.
type Brake struct {
	rate Rate
	now  func() time.Time

	mu    sync.Mutex
	byKey map[string]*list.Element // of *bucket
	used  list.List                // most recently used first
}

// bucket is the tokens of one key.
type bucket struct {
	key   string
	limit *rate.Limiter
}

// NewBrake makes a Brake.
func NewBrake(r Rate) *Brake { return NewBrakeAt(r, time.Now) }

// NewBrakeAt is NewBrake with a clock of the caller's, for tests.
func NewBrakeAt(r Rate, now func() time.Time) *Brake {
	return &Brake{rate: r, now: now, byKey: make(map[string]*list.Element)}
}

// Take counts one for the key. When the bucket is empty it counts nothing and returns how long
// to wait before the next attempt, which is never zero then.
func (b *Brake) Take(key string) (wait time.Duration, ok bool) {
	if b == nil || b.rate.PerSecond <= 0 {
		return 0, true
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.bucket(key)
	if l.AllowN(now, 1) {
		return 0, true
	}
	return b.wait(l, now), false
}

// wait is the time until one token is there again.
func (b *Brake) wait(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	return max(time.Duration(missing/b.rate.PerSecond*float64(time.Second)), time.Millisecond)
}

// bucket is the bucket of a key, made full where there is none. The lock is held.
func (b *Brake) bucket(key string) *rate.Limiter {
	if e, known := b.byKey[key]; known {
		b.used.MoveToFront(e)
		return e.Value.(*bucket).limit
	}
	for len(b.byKey) >= mostKeys {
		oldest := b.used.Back()
		delete(b.byKey, oldest.Value.(*bucket).key)
		b.used.Remove(oldest)
	}
	l := rate.NewLimiter(rate.Limit(b.rate.PerSecond), max(b.rate.Burst, 1))
	b.byKey[key] = b.used.PushFront(&bucket{key, l})
	return l
}

// RetryAfter is a wait as the Retry-After header has it: whole seconds, at least one.
func RetryAfter(wait time.Duration) int {
	return max(int((wait+time.Second-1)/time.Second), 1)
}

// Address is the key of a peer's address, as in http.Request.RemoteAddr: an IPv4 address, or the
// /64 network of an IPv6 one, because a single host usually owns a whole /64. Anything else is
// its own key.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // 64 bits fit any IPv6 address
	return network.String()
}
