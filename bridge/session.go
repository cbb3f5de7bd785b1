package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// session is the one writer of one Session while there is something to write. Its
// goroutine, drive, alone touches it, but for bell and rung.
type session struct {
	m         *Sessions
	id        string
	bell      chan struct{} // capacity 1
	rung      bool          // guarded by m.mu
	restoring bool          // an earlier process may have left a Run open

	row  store.Session
	log  *eventlog.Writer
	turn *turn // in memory only while its upstream is held or being read
}

// driveAgain is the pause before a Session is tried again after the store failed it.
const driveAgain = time.Second

// drive works through what is asked of the Session until nothing is left to do.
func (s *session) drive(ctx context.Context) {
	defer s.release()
	for {
		err := s.work(ctx)
		switch {
		case ctx.Err() != nil:
			s.m.retire(s)
			return
		case errors.Is(err, store.ErrFenced), errors.Is(err, eventlog.ErrStopped):
			s.m.retire(s)
			return
		case err != nil:
			s.m.cfg.Logger.Error("session stalled, trying again", slog.String("session_id", s.id), slog.Any("error", err))
			s.release()
			s.restoring, s.log = true, nil
			sleep(ctx, driveAgain)
		case s.m.retire(s):
			return
		}
	}
}

// work does everything there is to do now. It returns with a held Turn only when ctx ends.
func (s *session) work(ctx context.Context) error {
	if mine, err := s.open(ctx); err != nil || !mine {
		return err
	}
	for {
		did, err := s.step(ctx)
		if err != nil || (!did && s.turn == nil) {
			return err
		}
		if !did {
			if err := s.turn.wait(ctx); err != nil {
				return err
			}
		}
	}
}

// open claims the Session, reads its row and opens its log.
func (s *session) open(ctx context.Context) (mine bool, err error) {
	if s.log != nil {
		return true, nil
	}
	st := s.m.cfg.Store
	s.row, err = st.Session(ctx, store.System(), s.id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if s.row.Owner != s.m.cfg.Replica {
		err = st.InTx(ctx, func(tx store.Tx) (err error) {
			mine, err = tx.ClaimSession(ctx, s.id, s.m.cfg.Replica)
			return err
		})
		if err != nil || !mine {
			return false, err
		}
	}
	s.log, err = s.m.cfg.Log.Open(ctx, s.id)
	return err == nil, err
}

// step does one thing that is asked: a restore, a cancel, or the next reserved Run.
func (s *session) step(ctx context.Context) (did bool, err error) {
	if s.restoring {
		s.restoring = false
		return true, s.restore(ctx)
	}
	st := s.m.cfg.Store
	commands, err := st.PendingCommands(ctx, store.System(), s.id)
	if err != nil {
		return false, err
	}
	runs, err := st.ReservedRuns(ctx, store.System(), s.id)
	if err != nil {
		return false, err
	}
	if len(commands) > 0 {
		return true, s.obey(ctx, commands[0], runs)
	}
	run, err := s.nextRun(ctx, runs)
	if err != nil || run == nil {
		return false, err
	}
	return true, s.begin(ctx, *run)
}

// nextRun is the oldest reserved Run of the Turn that is under way, or, when none is, the
// oldest of all. A Turn that waits behind a paused one waits on.
func (s *session) nextRun(ctx context.Context, runs []store.Run) (*store.Run, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	active, err := s.m.cfg.Store.ActiveTurn(ctx, store.System(), s.id)
	if errors.Is(err, store.ErrNotFound) {
		return &runs[0], nil
	}
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].TurnID == active.ID {
			return &runs[i], nil
		}
	}
	return nil, nil
}

// begin drives a reserved Run to its end.
func (s *session) begin(ctx context.Context, run store.Run) error {
	if s.turn == nil || s.turn.row.ID != run.TurnID {
		row, err := s.m.cfg.Store.Turn(ctx, store.System(), run.TurnID)
		if err != nil {
			return err
		}
		s.turn = newTurn(s, row)
	}
	return s.finish(ctx, s.turn.drive(ctx, run))
}

// finish forgets a Turn that holds nothing any more, and turns a refusal of its own
// content into the end of its Run.
func (s *session) finish(ctx context.Context, err error) error {
	if err == nil && s.turn.held() {
		return nil
	}
	s.release()
	if errors.Is(err, store.ErrData) || errors.Is(err, store.ErrConflict) {
		s.m.cfg.Logger.Error("turn failed: the store refuses its content", slog.String("session_id", s.id), slog.Any("error", err))
		if s.log, err = s.m.cfg.Log.Open(ctx, s.id); err == nil {
			err = s.endBroken(ctx, &Failure{Code: CodeStorageRefused, Message: "The answer could not be kept."})
		}
	}
	return err
}

func (s *session) release() {
	if s.turn != nil {
		s.turn.release()
		s.turn = nil
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
