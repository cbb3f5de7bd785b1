package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// session is the one writer of one Session while there is something to write. Its
// goroutine, drive, alone touches it, but for bell and rung.
type session struct {
	m     *Sessions
	id    string
	bell  chan struct{} // capacity 1
	calls chan *toolKeeping
	gone  chan struct{} // closed when drive has ended
	rung  bool          // guarded by m.mu
	more  bool          // there is more to do than was done
	first *begun        // what to do first, if it need not be read

	row        store.Session
	transcript []agui.Message // all there is, while the thread's first Run begins; else nil
	log        *eventlog.Writer
	logged     logged
	turn       *turn // in memory only while its upstream is held or being read
}

// driveAgain is the pause before a Session is tried again after the store failed it.
const driveAgain = time.Second

// drive works through what is asked of the Session until nothing is left to do.
func (s *session) drive(ctx context.Context) {
	defer close(s.gone)
	defer s.closeLog()
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
			s.first, s.transcript = nil, nil
			s.closeLog()
			sleep(ctx, driveAgain)
		case s.m.retire(s):
			return
		}
	}
}

// work does everything there is to do now. It returns with a held Turn only when ctx ends.
func (s *session) work(ctx context.Context) error {
	for {
		s.more = false
		if s.turn != nil && s.turn.run != nil {
			if err := s.finish(ctx, s.turn.follow(ctx)); err != nil {
				return err
			}
		}
		if err := s.step(ctx); err != nil {
			return err
		}
		switch {
		case s.more:
		case s.turn == nil:
			return nil
		default:
			if err := s.finish(ctx, s.turn.follow(ctx)); err != nil {
				return err
			}
		}
	}
}

// open claims the Session and opens its log at the end the Agenda tells.
func (s *session) open(ctx context.Context, todo store.Agenda) (mine bool, err error) {
	if s.log != nil {
		return true, nil
	}
	s.row = todo.Session
	if s.row.Owner == s.m.cfg.Replica {
		s.log = s.m.cfg.Log.OpenAt(s.id, todo.LastSeq)
		return true, nil
	}
	err = s.m.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimSession(ctx, s.id, s.m.cfg.Replica)
		return err
	})
	if err == nil && mine { // the one before us may have written until now
		s.log, err = s.m.cfg.Log.Open(ctx, s.id)
	}
	return mine, err
}

// step does one thing that there is to do, which the rows tell: bring a Run to its end that an earlier process left
// open, carry out a command, drive the next reserved Run, or pass on what was settled. That order matters: a command
// or a reserved Run must not open a Run beside one that is open. It sets more when there is more to do; what is asked
// meanwhile rings the bell.
func (s *session) step(ctx context.Context) error {
	todo, err := s.agenda(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted
	}
	if err != nil {
		return err
	}
	if mine, err := s.open(ctx, todo); err != nil || !mine {
		return err
	}
	switch {
	case todo.Running != "":
		s.more = true
		return s.restore(ctx)
	case todo.Command != nil:
		s.more = true
		return s.obey(ctx, *todo.Command, todo.Run)
	case todo.Run != nil:
		s.more = todo.Reserved > 1
		return s.begin(ctx, *todo.Run, todo.Turn)
	case todo.Turn != nil && todo.Turn.Status != store.TurnQueued:
		return s.tend(ctx, *todo.Turn, todo.Settled)
	}
	return nil
}

// tend looks after a Turn that is under way without an open Run.
func (s *session) tend(ctx context.Context, row store.Turn, settled bool) error {
	if s.turn != nil && s.turn.row.ID == row.ID && s.turn.held() {
		return s.finish(ctx, s.turn.catchUp(ctx))
	}
	s.release()
	waits := row.Upstream == store.UpstreamWaits
	if waits && !settled {
		return nil // its Agent is called when the answers are there
	}
	s.turn = newTurn(s, row)
	last, err := s.turn.lastRun(ctx)
	if err != nil {
		return err
	}
	if s.turn.profile, err = profileOf(last); err != nil {
		return err
	}
	if waits {
		return s.finish(ctx, s.turn.catchUp(ctx))
	}
	return s.finish(ctx, s.turn.reattach(ctx, last.ID))
}

// begunBy starts from what a request has just written. The log is opened before anybody
// can tail what comes, so that they need not ask the store either.
func (s *session) begunBy(b begun) {
	s.first, s.transcript, s.row = &b, b.messages, b.todo.Session
	s.log = s.m.cfg.Log.OpenAt(s.id, b.todo.LastSeq)
}

func (s *session) agenda(ctx context.Context) (store.Agenda, error) {
	if first := s.first; first != nil {
		s.first = nil
		return first.todo, nil
	}
	return s.m.cfg.Store.Agenda(ctx, store.System(), s.id)
}

// begin drives a reserved Run to its end. turn is the one under way, if any is.
func (s *session) begin(ctx context.Context, run store.Run, turn *store.Turn) error {
	if s.turn != nil && s.turn.row.ID != run.TurnID {
		s.release()
	}
	if s.turn == nil {
		if turn == nil { // it ended while the Run was reserved
			row, err := s.m.cfg.Store.Turn(ctx, store.System(), run.TurnID)
			if err != nil {
				return err
			}
			turn = &row
		}
		s.turn = newTurn(s, *turn)
		if s.turn.orphaned() { // its Agent has to be found before it can be told anything
			if err := s.turn.reattach(ctx, run.ID); err != nil {
				return err
			}
		}
	}
	return s.finish(ctx, s.turn.drive(ctx, run))
}

// finish forgets a Turn that holds nothing any more, and turns a refusal of its own
// content into the end of its Run.
func (s *session) finish(ctx context.Context, err error) error {
	if err == nil && s.turn != nil && (s.turn.held() || s.turn.run != nil) {
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

func (s *session) closeLog() {
	if s.log != nil {
		s.log.Close()
		s.log = nil
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
