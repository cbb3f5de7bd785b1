package hints

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

// of tells whose a Session is. One that is not there, or no more, is nobody's.
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
