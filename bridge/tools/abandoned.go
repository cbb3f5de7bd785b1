package tools

import (
	"context"

	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// lookForAbandoned takes back what still waits for somebody although its Turn is over: a call
// that came in the moment its Agent ended.
func (s *Service) lookForAbandoned(ctx context.Context) error {
	calls, err := s.cfg.Store.AbandonedToolCalls(ctx, store.System(), lookMost)
	if err != nil {
		return err
	}
	for _, call := range calls {
		if err := s.takeBack(ctx, call); err != nil {
			s.complain(ctx, call, err)
		}
	}
	return nil
}

// takeBack settles a call whose Agent is gone, unless somebody was first.
func (s *Service) takeBack(ctx context.Context, call store.ToolCall) error {
	var settled inbox.Settled
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		session, err := tx.LockSession(ctx, store.System(), call.SessionID)
		if err != nil {
			return err
		}
		q, err := inbox.Load(ctx, tx, store.System(), call.ID)
		if err != nil {
			return err
		}
		settled, err = s.settler.Apply(ctx, tx, session, q, inbox.AskerGone(), store.Principal{})
		return err
	})
	if err == nil {
		if f := s.cfg.Meter.Settled; f != nil && settled.Won {
			f(settled.Question)
		}
		s.cfg.Ring(call.SessionID)
		s.cfg.Notices.Kept()
	}
	return err
}
