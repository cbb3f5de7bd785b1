// This file remembers calls whose clients gave up. A key (keyOf) stands for "the same call": caller, tool and
// arguments. left and held are two sides of it: what may be taken over, and what may be left in a moment.

package mcpserver

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// leftTime is how long a call that its client left can be gone on with by making it again.
	leftTime = time.Hour
	// leftMost bounds those that are remembered; the oldest is forgotten, and asked for anew, or run once more.
	leftMost = 10_000
	// leftOfUser bounds those of one user, so that a client which leaves its calls has those of others not forgotten.
	leftOfUser = 200
	// leaveTime is how long a call waits while another is held that is the same. A client that gives up and calls again reports
	// both at once, over two connections: that it has left may come last.
	leaveTime = 500 * time.Millisecond
)

// leftCalls are calls that ended later than their clients waited. Most clients give up after a minute and try again: they
// must neither run the tool twice nor ask the person twice. It is in memory; what an earlier process left is found by its rows
// (adopt.go).
//
// The way of a call whose client gives up after a minute and makes it again:
//
//	1st request   hold(key) · the call is made · … · the client leaves · put(key, id)
//	2nd request   take(key) gives id · the same call is held on · its result
//
// The two may overlap, the leaving of the first being seen behind the second's beginning; take waits for that
// (leaveTime).
type leftCalls struct {
	mu      sync.Mutex
	left    []leftCall     // in the order in which they were left
	held    map[string]int // by key: requests that wait for their call
	changed chan struct{}  // closed when either changes, and made anew
}

type leftCall struct {
	user, key, id string
	at            time.Time
}

// put remembers a call of a user's that was left.
func (l *leftCalls) put(user, key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, leftCall{user, key, id, time.Now()})
	// The user's oldest goes where the user has too many; only then the oldest of all, and what is too old. leftMost
	// bounds the walk.
	first, all := -1, 0
	for i, c := range l.left {
		if c.user != user {
			continue
		}
		if all++; all == 1 {
			first = i
		}
	}
	if all > leftOfUser {
		l.left = slices.Delete(l.left, first, first+1)
	}
	old := 0
	for old < len(l.left) && (len(l.left)-old > leftMost || time.Since(l.left[old].at) > leftTime) {
		old++
	}
	l.left = slices.Delete(l.left, 0, old)
	l.wake()
}

// hold counts a request that waits for its call, until the function that it returns is called.
func (l *leftCalls) hold(key string) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]int)
	}
	l.held[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[key]--; l.held[key] == 0 {
			delete(l.held, key)
		}
		l.wake()
	}
}

// wake has those look again that wait in take. The lock is held.
func (l *leftCalls) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// take gives a call up to one client: a second that makes the same call makes one of its own, or gets another that was left.
// While the same call is held it waits a moment for that to be left.
func (l *leftCalls) take(ctx context.Context, key string) (id string) {
	late := time.NewTimer(leaveTime)
	defer late.Stop()
	for {
		id, held, changed := l.look(key)
		if id != "" || !held {
			return id
		}
		select {
		case <-changed:
		case <-late.C:
			return ""
		case <-ctx.Done():
			return ""
		}
	}
}

// look takes the oldest call of a key that was left; where there is none it reports whether one is held, and what is closed when
// that changes.
func (l *leftCalls) look(key string) (id string, held bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.left, func(c leftCall) bool { return c.key == key && time.Since(c.at) <= leftTime })
	if i >= 0 {
		id = l.left[i].id
		l.left = slices.Delete(l.left, i, i+1)
		return id, false, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return "", l.held[key] > 0, l.changed
}
