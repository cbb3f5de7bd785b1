package bridge

import (
	"cmp"
	"context"
	"errors"
	"time"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// restore brings the Run of an id to its end that an earlier process left open: the Agent takes the Turn up again, or the Run ends
// in one RUN_ERROR. An Agent that had ended to wait is called when the answers are there.
// What it does depends on three things that the log and the rows hold: whether the Turn had ended past its Run,
// whether its Agent had ended to wait, or whether the Agent was at work. Only in the last case something has to be
// taken up (turn.reattach); an HTTP agent cannot be, and its Run fails as server_restarted. A Run that was only
// reserved is no work of restore: it begins as if it were new.
func (s *session) restore(ctx context.Context, runID string) error {
	last, err := s.m.cfg.Store.Run(ctx, store.System(), runID)
	if errors.Is(err, store.ErrNotFound) || err == nil && last.Status != store.RunRunning {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.reopen(ctx, last); err != nil {
		return err
	}
	t := s.turn
	switch {
	case t.row.Status.Terminal(): // it ended past its Run, which only the log of an older version has
		_, err = t.writer.end(ctx, ending{failure: asFailure(ErrCannotResume)})
	case t.row.Waiting():
		err = t.failFor(ctx, t.endQuietRun(ctx))
	default:
		err = t.reattach(ctx, last.ID)
		switch {
		case err != nil:
		case t.row.Waiting(): // its call was lost, and it can be called again
			err = t.failFor(ctx, t.endQuietRun(ctx))
		default:
			t.quiet.putOff(t.upstream.idle(), t.row.Status.Paused())
		}
	}
	if err == nil {
		err = t.follow(ctx)
	}
	return s.finish(ctx, err)
}

// reopen rebuilds an open Run from its slice of the log.
// The events are read again and not remembered in a row of their own, so that the state in memory cannot differ from
// what clients were sent. The grammar, the state and the fold see each of them as they did when it was written;
// nothing is written a second time. An upstream may go on with a message that it began before: continuations.resumed is set to expect
// that.
func (s *session) reopen(ctx context.Context, row store.Run) error {
	turnRow, err := s.m.cfg.Store.Turn(ctx, store.System(), row.TurnID)
	if err != nil {
		return err
	}
	s.release()
	s.turn = newTurn(s, turnRow)
	s.turn.writer.speech.continuations.resumed = true
	if err := s.turn.writer.open(row, row.FirstSeq); err != nil {
		return err
	}
	return s.turn.writer.replay(ctx)
}

// obey carries out a command while no Run is open.
// A Turn that is queued or parked has no upstream to stop, but it has a row that a client waits for, so it gets a Run
// in which it ends. A command for a Turn that has ended is marked as done and has no other effect: two people may
// cancel at once.
func (s *session) obey(ctx context.Context, c store.Command, reserved *store.Run) error {
	row, err := s.m.cfg.Store.Turn(ctx, store.System(), c.TurnID)
	if err != nil {
		return err
	}
	if c.Kind == store.CommandLook {
		return s.look(ctx, c, row)
	}
	if row.Status.Terminal() {
		return s.log.keep(ctx, store.CommandDone{ID: c.ID, At: time.Now()})
	}
	if s.turn == nil || s.turn.row.ID != row.ID {
		s.release()
		s.turn = newTurn(s, row)
	}
	return s.finish(ctx, s.turn.obeyParked(ctx, c, reserved))
}

// look carries out a CommandLook while no Run is open. Of a Turn that is over, what its Agent called in its last moment is
// cancelled. One that this process does not hold is taken up first, so that what is asked has an Agent that lives.
func (s *session) look(ctx context.Context, c store.Command, row store.Turn) error {
	if row.Status.Terminal() {
		all, err := s.m.cfg.Store.ChildTurns(ctx, store.System(), cmp.Or(s.log.row.RootTurnID, row.ID))
		if err != nil {
			return err
		}
		moves := []store.Move{store.CommandDone{ID: c.ID, At: time.Now()}}
		var rings []string
		for _, cancel := range cancels(row.ID, all) {
			moves, rings = append(moves, store.InsertCommand{Command: cancel}), append(rings, cancel.SessionID)
		}
		if err := s.log.keep(ctx, moves...); err != nil {
			return err
		}
		if len(rings) > 0 {
			s.m.cfg.Bell.Ring(rings...)
		}
		return nil
	}
	if s.turn == nil || s.turn.row.ID != row.ID {
		s.release()
		s.turn = newTurn(s, row)
		last, err := s.turn.resumeAfter(ctx)
		if err == nil && leftCalled(row) {
			err = s.turn.reattach(ctx, last)
		}
		if err != nil {
			return s.finish(ctx, err)
		}
	}
	return s.finish(ctx, s.turn.failFor(ctx, s.turn.children.carryOut(ctx, []store.Command{c})))
}

// endBroken ends the Run the log shows as open with an error.
// It is the last resort, when the owner's own work failed in a way that it cannot go on from. Without it the Session
// would be claimed again and again and fail each time.
func (s *session) endBroken(ctx context.Context, f *fault.Error) error {
	last, err := s.m.cfg.Store.LastRun(ctx, store.System(), s.id)
	if err != nil {
		return err
	}
	if last.Status != store.RunRunning {
		return s.failReserved(ctx, f)
	}
	if err := s.reopen(ctx, last); err != nil {
		return err
	}
	defer s.release()
	return s.turn.fail(ctx, f)
}

// failReserved ends a Run that could not even begin.
// Its client waits for a RUN_STARTED with its runId and then for an end; both are written here, so that the failure
// looks like any other to it.
func (s *session) failReserved(ctx context.Context, f *fault.Error) error {
	todo, err := s.m.cfg.Store.Agenda(ctx, store.System(), s.id)
	if err != nil || todo.Run == nil || todo.Turn == nil {
		return err
	}
	s.turn = newTurn(s, *todo.Turn)
	defer s.release()
	if err := s.turn.writer.begin(*todo.Run, nil); err != nil {
		return err
	}
	_, err = s.turn.writer.end(ctx, ending{turn: store.TurnFailed, failure: f})
	return err
}
