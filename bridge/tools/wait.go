package tools

import (
	"context"
	"time"

	"aqueduct/store"
)

// lookAgain is how often a call that is waited for is read although nobody rang: a ring of
// another replica may be lost.
const lookAgain = 2 * time.Second

// Wait returns the call when it has ended, or as it is when the time is over.
func (s *Service) Wait(ctx context.Context, in store.Scope, id string, timeout time.Duration) (store.ToolCall, error) {
	call, err := s.cfg.Store.ToolCall(ctx, in, id)
	if err != nil || call.Status.Terminal() {
		return call, err
	}
	bell, stop := s.cfg.Listen(call.SessionID)
	defer stop()
	over := time.NewTimer(timeout)
	defer over.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		here := s.endsHere(id)
		if call, err = s.cfg.Store.ToolCall(ctx, in, id); err != nil || call.Status.Terminal() {
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
