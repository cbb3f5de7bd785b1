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
	asked map[string]bool // by key of the caller
}

// adopt remembers the caller's calls that were left so. They were made before this process began, and ended since or not yet.
// One that a client of another replica waits for may be among them: who makes the same call here gets its result too.
func (a *adopter) adopt(ctx context.Context, from caller) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked[from.key()] || time.Since(a.began) > leftTime {
		return nil
	}
	turn, err := from.turn(ctx)
	if err != nil {
		return err
	}
	in, err := from.scope(ctx)
	if err != nil {
		return err
	}
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
	a.asked[from.key()] = true
	return nil
}
