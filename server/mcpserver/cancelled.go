package mcpserver

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

// A client of a revision before 2026 that gives up a call reports that in a request of its own (notifications/cancelled), and may leave
// the stream of the call open. The two meet by the id of the call's request, which is unique for one client alone. So a client is
// given a name when it begins, in the header of the protocol's sessions: nothing else hangs on it, and any server answers a
// client that another named.

// sessionHeader is where a client shows its name.
const sessionHeader = "Mcp-Session-Id"

// newClientName makes the name of a client.
func newClientName() string { return rand.Text() }

const (
	// crossTime is how long after a result the notification counts that its request was given up: the two cross on their way, and
	// the client, or a relay in between, has dropped the result. No client gives up a request whose result it has.
	crossTime = 10 * time.Second
	// crossMost bounds the requests that are remembered for that; the oldest are forgotten, whose calls are asked for anew.
	crossMost = 10_000
)

// openRequests are the requests that can be given up: those under way, and for a moment those whose results were sent.
type openRequests struct {
	mu    sync.Mutex
	byKey map[string]*openRequest
	sent  []sentRequest // in the order in which they ended
}

// openRequest is one of them. Its call adds what it sends as a result.
type openRequest struct {
	all    *openRequests
	cancel context.CancelFunc

	// Guarded by all.mu.
	givenUp bool
	lose    []func() // have the call be gone on with whose result was sent, if that is lost
}

type sentRequest struct {
	key string
	of  *openRequest
	at  time.Time
}

// add has a request be given up by its key, until the function that it returns is called and a moment longer.
func (o *openRequests) add(key string, cancel context.CancelFunc) (r *openRequest, done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey == nil {
		o.byKey = make(map[string]*openRequest)
	}
	if _, twice := o.byKey[key]; twice { // of a client that does not count its requests: which is meant is unknown
		return nil, func() {}
	}
	r = &openRequest{all: o, cancel: cancel}
	o.byKey[key] = r
	return r, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.forget(); len(r.lose) == 0 {
			delete(o.byKey, key)
			return
		}
		o.sent = append(o.sent, sentRequest{key: key, of: r, at: time.Now()})
	}
}

// forget drops the requests that ended too long ago. The lock is held.
func (o *openRequests) forget() {
	old := 0
	for old < len(o.sent) && (len(o.sent)-old > crossMost || time.Since(o.sent[old].at) > crossTime) {
		delete(o.byKey, o.sent[old].key)
		old++
	}
	o.sent = slices.Delete(o.sent, 0, old)
}

// giveUp ends a request that is under way here, and takes back the results that were sent for it.
func (o *openRequests) giveUp(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget()
	r := o.byKey[key]
	if r == nil || r.givenUp {
		return
	}
	r.givenUp = true
	r.cancel()
	for _, lose := range r.lose {
		lose()
	}
}

// sends notes that a result is sent; lose is called if it is lost. A request without a name, for which r is nil, cannot be given up.
func (r *openRequest) sends(lose func()) {
	if r == nil {
		return
	}
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	if r.givenUp {
		lose()
		return
	}
	r.lose = append(r.lose, lose)
}
