package livefeed

import (
	"context"
	"errors"
	"time"

	"aqueduct/store"
)

const (
	// maxOwners bounds what is remembered; beyond it, all is asked for again.
	maxOwners = 10_000
	// askTime is how long a database may hold up hints; those it holds up longer are lost.
	askTime = 2 * time.Second
)

// owners remembers whose a Session is, which never changes. Only Run uses it.
type owners struct {
	sessions store.SessionReader
	known    map[string]store.Principal
}

// of finds the owner of a Session; false when the store does not answer. A Session that does not exist, or was deleted
// before it was first asked for, has the zero owner, which no user is: only watchers of everything see its hints. One
// that was known keeps its owner, so that the hint of its deletion arrives.
func (o *owners) of(ctx context.Context, sessionID string) (store.Principal, bool) {
	owner, known := o.known[sessionID]
	if known {
		return owner, true
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := o.sessions.Session(ctx, store.System(), sessionID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Principal{}, false
	}
	if len(o.known) >= maxOwners {
		clear(o.known)
	}
	owner = store.Principal{Tenant: s.Tenant, User: s.User}
	o.known[sessionID] = owner
	return owner, true
}
