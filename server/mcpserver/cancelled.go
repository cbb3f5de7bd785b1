package mcpserver

import (
	"context"
	"crypto/rand"
	"sync"
)

// A client of a revision before 2026 that gives up a call reports that in a request of its own (notifications/cancelled), and may leave
// the stream of the call open. The two meet by the id of the call's request, which is unique for one client alone. So a client is
// given a name when it begins, in the header of the protocol's sessions: nothing else hangs on it, and any server answers a
// client that another named.

// sessionHeader is where a client shows its name.
const sessionHeader = "Mcp-Session-Id"

// newClientName makes the name of a client.
func newClientName() string { return rand.Text() }

// openRequests are the requests that can be cancelled.
type openRequests struct {
	mu    sync.Mutex
	byKey map[string]context.CancelFunc
}

// add has a request be cancelled by its key, until the function that it returns is called.
func (o *openRequests) add(key string, cancel context.CancelFunc) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey == nil {
		o.byKey = make(map[string]context.CancelFunc)
	}
	if _, twice := o.byKey[key]; twice { // of a client that does not count its requests: which is meant is unknown
		return func() {}
	}
	o.byKey[key] = cancel
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.byKey, key)
	}
}

// cancel ends a request that is under way here.
func (o *openRequests) cancel(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cancel := o.byKey[key]; cancel != nil {
		cancel()
	}
}
