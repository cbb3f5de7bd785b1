package bridge

import (
	"context"
	"sync"
	"time"

	"aqueduct/store"
)

const (
	// countedFor is how long a count of a user's rows is used before they are counted again: what
	// other replicas add is seen after that.
	countedFor = time.Second
	// maxCounted bounds the users whose counts are remembered. A forgotten one is counted anew.
	maxCounted = 4096
)

// userCount limits how many rows of a kind one user may have. It counts them in the store at most
// once a second, and adds what this replica adds in between, so that a thousand new rows do not
// cost a thousand counts. Rows that end in between are not subtracted; before it refuses it counts
// again, so no user is refused for those.
type userCount struct {
	most  int
	count func(ctx context.Context, in store.Scope, most int) (int, error)

	mu sync.Mutex
	by map[userKey]counted
}

type userKey struct{ tenant, user string }

type counted struct {
	n  int
	at time.Time
}

func newUserCount(most int, count func(context.Context, store.Scope, int) (int, error)) *userCount {
	return &userCount{most: most, count: count, by: make(map[userKey]counted)}
}

// add counts one more for the user; false when there are as many as there may be.
func (u *userCount) add(ctx context.Context, tenant, user string) (bool, error) {
	key := userKey{tenant, user}
	u.mu.Lock()
	c := u.by[key]
	if c.n < u.most && time.Since(c.at) < countedFor {
		c.n++
		u.by[key] = c
		u.mu.Unlock()
		return true, nil
	}
	u.mu.Unlock()
	// The store is asked without the lock, or one slow count would hold up every user. Several requests at once may
	// so take the last place.
	n, err := u.count(ctx, store.As(store.Principal{Tenant: tenant, User: user}), u.most)
	if err != nil {
		return false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.by[key]; !known && len(u.by) >= maxCounted {
		clear(u.by)
	}
	if n >= u.most {
		u.by[key] = counted{n, time.Now()}
		return false, nil
	}
	u.by[key] = counted{n + 1, time.Now()}
	return true, nil
}
