// This file finds the calls that a killed server held. It reads rows that are there anyway (ToolCalls of the caller's
// last Turn), so nothing has to be written when a call is held.

package mcpserver

import (
	"context"
	"sync"
	"time"

	"aqueduct/store"
)

// adopter finds the calls that were held when an earlier process of this server ended: their clients have no result, and may
// make them again. A caller's are looked for once, with its first call here.
type adopter struct {
	store store.Store
	left  *leftCalls
	began time.Time // this process

	mu    sync.Mutex
	asked map[string]*adoption // by key of the caller
}

// adoption is that of one caller's calls. Its lock is held while the store is read, so that another caller waits for no more
// than its own.
type adoption struct {
	mu   sync.Mutex
	done bool
}

// of is a caller's adoption.
func (a *adopter) of(key string) *adoption {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.asked[key]
	if one == nil {
		one = new(adoption)
		a.asked[key] = one
	}
	return one
}

// forget has a caller be looked for again with its next call: the store was away, or the caller had no Turn.
func (a *adopter) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, key)
}

// adopt remembers the caller's calls that were left so. They were made before this process began, and ended since or not yet.
// One that a client of another replica waits for may be among them: who makes the same call here gets its result too.
func (a *adopter) adopt(ctx context.Context, from caller) error {
	// What an earlier process held was left longer ago than leftTime by now, and cannot be gone on with.
	if time.Since(a.began) > leftTime {
		return nil
	}
	one := a.of(from.key())
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.done {
		return nil
	}
	defer func() {
		if !one.done {
			a.forget(from.key())
		}
	}()
	turn, err := from.turn(ctx)
	if err != nil || turn == "" { // a client may name any number of threads, and what is kept of each stays
		return err
	}
	in, err := from.scope(ctx)
	if err != nil {
		return err
	}
	// The key of a call is made of its arguments as the client has them, and masked ones would make another key.
	ctx = store.WithOriginals(ctx)
	calls, err := a.store.ToolCallsOfTurn(ctx, in, turn)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Kind != store.KindServer || !c.CreatedAt.Before(a.began) || c.Status.Terminal() && c.EndedAt.Before(a.began) {
			continue
		}
		args := c.Args
		if c.Edited { // the client has the first ones
			asked, err := a.store.Approval(ctx, in, c.ID)
			if err != nil {
				return err
			}
			args = asked.Args
		}
		a.left.put(from.user(), keyOf(from, c.Name, args), c.ID)
	}
	one.done = true
	return nil
}
