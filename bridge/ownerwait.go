package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// untilBegun waits for the Run that the Feed is for to begin. A Run that no living owner
// begins within Limits.OwnerWait ends the Feed with a RUN_ERROR: heartbeats alone would keep
// its client waiting for ever.
// The frames are made here and not read from the log, because the log's owner is what is missing. They are not kept:
// when another replica takes the Session over, it writes the Run's real end, with the same code.
func (f *Feed) untilBegun(ctx context.Context) ([]store.EventRow, error) {
	for {
		wait, stop := context.WithTimeout(ctx, f.from.ownerWait)
		unhook := context.AfterFunc(f.closing, stop)
		rows, err := f.tail.Next(wait)
		unhook()
		stop()
		if err != nil && ctx.Err() == nil && f.closing.Err() != nil {
			return f.readyOnly(ctx)
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return rows, err
		}
		gaveUp, err := f.from.giveUp(ctx, *f.want)
		if err != nil {
			return nil, err
		}
		if gaveUp {
			why := ownerUnavailable()
			f.items = append(f.items, transientItems([]agui.Event{
				&agui.RunStarted{ThreadID: f.session.ExternalID, RunID: f.want.ExternalID, ProtocolVersion: protocolVersion},
				&agui.RunError{Code: why.Code, Message: why.Message},
			})...)
			f.ended = true
			return nil, nil
		}
	}
}

func ownerUnavailable() *fault.Error {
	return fault.New(CodeOwnerUnavailable, "The server that holds this conversation does not answer. Please try again.")
}

// giveUp asks for the end of a Turn whose reserved Run its owner does not begin; false when
// there is something else to wait for. The owner, or the replica that takes over from it, ends the
// Turn in the log with the code that the client is given now, so that no replica runs later what
// was reported as failed.
// All is looked at under the Session's lock. A Run that has begun meanwhile, an owner that is at work on the Run
// before, and a Turn that waits for an answer are all reasons to wait on. The command is written once, however many
// streams of the Run give up.
func (s *Feeds) giveUp(ctx context.Context, want store.Run) (bool, error) {
	gaveUp := false
	err := s.store.InTx(ctx, func(tx store.Tx) error {
		gaveUp = false
		session, err := tx.LockSession(ctx, store.System(), want.SessionID)
		if err != nil || session.Owner == s.replica { // ours: it is begun as soon as it can be
			return err
		}
		run, err := tx.Run(ctx, store.System(), want.ID)
		if err != nil || run.Status != store.RunReserved {
			return err
		}
		switch last, err := tx.LastRun(ctx, store.System(), want.SessionID); {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case err == nil && last.Status == store.RunRunning: // its owner is at work on another Run
			return nil
		}
		switch active, err := tx.ActiveTurn(ctx, store.System(), want.SessionID); {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case err == nil && active.ID != run.TurnID: // the Turn before waits for an answer
			return nil
		}
		pending, err := tx.PendingCommands(ctx, store.System(), want.SessionID)
		if err != nil {
			return err
		}
		gaveUp = true
		if slices.ContainsFunc(pending, func(c store.Command) bool { return c.TurnID == run.TurnID && c.Kind.Ends() }) {
			return nil
		}
		why := ownerUnavailable()
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: run.SessionID, TurnID: run.TurnID, Kind: store.CommandFail, CreatedAt: time.Now(),
			Payload: mustJSON(map[string]string{"code": why.Code, "message": why.Message}),
		})
	})
	if err == nil {
		s.bell.Ring(want.SessionID) // its owner may have been fenced meanwhile
	}
	return gaveUp, err
}
