package tools

import (
	"context"
	"time"

	"aqueduct/store"
)

// lookAgain is how often a call that is waited for is read without a ring: a ring of another replica may be lost.
const lookAgain = 2 * time.Second

// Wait returns the call when it has ended, or as it is after timeout.
// A call ends in one of four ways for this waiter: by the runner of this process, by a ring from the Session's owner,
// by the next tick where both got lost, or not in time. The row is read after each and decides; a wake-up alone proves
// nothing. The channel of the runner is taken before the row is read, so that an end in between is not slept over.
func (s *Service) Wait(ctx context.Context, in store.Scope, id string, timeout time.Duration) (store.ToolCall, error) {
	call, err := s.store.ToolCall(ctx, in, id)
	if err != nil || call.Status.Terminal() {
		return call, err
	}
	bell, stop := s.listen(call.SessionID)
	defer stop()
	over := time.NewTimer(timeout)
	defer over.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		here := s.runner.endOf(id)
		if call, err = s.store.ToolCall(ctx, in, id); err != nil || call.Status.Terminal() {
			return call, err
		}
		select {
		case <-here:
		case <-bell:
		case <-tick.C:
		case <-over.C:
			return call, nil
		case <-ctx.Done():
			return call, ctx.Err()
		}
	}
}
