package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// session is the one writer of one Session while there is something to write. Its goroutine, drive, alone uses it, but for
// the channels and rung.
//
// It exists while there is work and ends when there is none. Which Session has one is guarded by Sessions.mu, together
// with rung: a ring that comes between the last look at the rows and the goroutine's end is seen by retire, which then
// refuses to end it. So no ring is lost to a goroutine that is about to leave.
type session struct {
	m     *Sessions
	id    string
	bell  chan struct{} // capacity 1
	calls chan *toolKeeping
	gone  chan struct{} // closed when drive has ended
	rung  bool          // guarded by m.mu
	first *begun        // what to do first, if it need not be read

	parked bool // its Turn waits for people alone; guarded by m.mu, written by drive
	taken  bool // a request here asks for it, until the first look

	log        sessionLog
	transcript []agui.Message // all there is, until the thread's first Turn is made; else nil
	turn       *turn          // in memory only while its upstream is held or being read
}

// driveAgain is the pause before a Session is tried again after the store failed it.
const driveAgain = time.Second

// drive does the Session's pending work until none is left.
//
// It waits for a database that is away, because ctx is patient (store.Patient). A stall does not end it. After an error that
// is not the Turn's own, the session discards its state in memory and begins again from the rows, as another replica would.
// A fence ends it for good, because another replica writes now.
//
// The race of two writers: (1) The session hands events to the committer, which cannot reach the database. (2) The session
// stalls, or ends. (3) It, or the session that follows it, reads the rows and gives the positions of step 1 to other events.
// (4) The database returns, and both commits land. Guard: the session reads no rows until the committer has settled its
// events. That costs a session that ends during an outage the rest of the outage. The database refuses the second row as well.
func (s *session) drive(ctx context.Context) {
	defer close(s.gone)
	defer s.log.close()
	defer s.release()
	for {
		err := s.work(ctx)
		if settled := s.log.settle(ctx); err == nil {
			err = settled
		}
		switch {
		case ctx.Err() != nil:
			s.m.retire(s)
			return
		case errors.Is(err, store.ErrFenced), errors.Is(err, eventlog.ErrStopped):
			s.m.retire(s)
			return
		case errors.Is(err, ErrMoved):
			s.release()
			s.first, s.transcript = nil, nil
			s.log.close()
		case err != nil:
			s.m.cfg.Logger.Error("session stalled, trying again", slog.String("session_id", s.id), slog.Any("error", err))
			s.release()
			s.first, s.transcript = nil, nil
			s.log.close()
			_ = retry.Sleep(ctx, driveAgain) // the loop ends with ctx
		case s.m.retire(s):
			return
		}
	}
}

// work does everything there is to do now. It returns with a held Turn only when ctx ends.
func (s *session) work(ctx context.Context) error {
	for {
		s.log.again = false
		if s.turn != nil && s.turn.writer.run != nil {
			if err := s.finish(ctx, s.turn.follow(ctx)); err != nil {
				return err
			}
		}
		if err := s.step(ctx); err != nil {
			return err
		}
		switch {
		case s.log.again:
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
//
// Claiming is a compare-and-set on the owner, which succeeds only while the owner is this replica, none, or one that
// is fenced. The end of the log is read after it: until then the one before may still have written.
// mine is false where another living replica owns the Session: the work is that one's, which finds it by the ring or
// by its own look.
func (s *session) open(ctx context.Context, todo store.Agenda) (mine bool, err error) {
	if s.log.writer != nil {
		return true, nil
	}
	s.log.row = todo.Session
	if s.log.row.Owner == s.m.cfg.Replica {
		s.log.writer = s.m.cfg.Log.OpenAt(s.id, todo.LastSeq)
		return true, nil
	}
	err = repeatable(ctx, s.m.cfg.Store, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimSession(ctx, s.id, s.m.cfg.Replica)
		return err
	})
	if err == nil && mine { // the one before us may have written until now
		s.log.writer, err = s.m.cfg.Log.Open(ctx, s.id)
	}
	return mine, err
}

// repeatable runs a transaction of a Session's goroutine, and runs it again if it is not known whether it was committed. The
// second run must not change a row.
func repeatable(ctx context.Context, st store.Store, fn func(store.Tx) error) error {
	return retry.While(ctx, func(err error) bool { return errors.Is(err, store.ErrUnknownOutcome) }, func() error { return st.InTx(ctx, fn) })
}

// step does one thing that there is to do, which the rows tell: bring a Run to its end that an earlier process left
// open, carry out a command, drive the next reserved Run, or pass on what was settled. That order matters: a command
// or a reserved Run must not open a Run beside one that is open. It sets log.again when there is more to do; what is
// asked meanwhile rings the bell.
func (s *session) step(ctx context.Context) error {
	taken := s.taken
	s.taken = false
	todo, err := s.pendingWork(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted
	}
	if err != nil {
		return err
	}
	if mine, err := s.open(ctx, todo); err != nil || !mine {
		return err
	}
	if left, err := isLeft(ctx, s, todo); left || err != nil {
		return err
	}
	switch {
	case todo.Running != "":
		s.log.again = true
		return s.restore(ctx, todo.Running)
	case todo.Command != nil && todo.Command.Kind == store.CommandAppend:
		s.log.again = true
		return s.appendMessage(ctx, *todo.Command, todo)
	case todo.Command != nil:
		s.log.again = true
		return s.obey(ctx, *todo.Command, todo.Run)
	case todo.Run != nil && s.m.draining.leaves(s, *todo.Run, taken):
	case todo.Run != nil:
		s.log.again = todo.Reserved > 1
		return s.begin(ctx, *todo.Run, todo.Turn)
	case todo.Turn != nil && todo.Turn.Status != store.TurnQueued:
		return s.supervise(ctx, *todo.Turn, todo.Settled)
	}
	return nil
}

// supervise looks after a Turn that is under way without an open Run. It is where a decision is found that was committed
// before this process began: the rows show that it was not passed on, so the Session had work, and got here.
//
// Of a Turn whose Agent waits, nothing is held and nothing is called until something was settled. Of any other the Agent is
// asked first whether it is still there (reattach); an Agent that is gone gets no decision, and its open Questions are
// cancelled before a person decides for it.
func (s *session) supervise(ctx context.Context, row store.Turn, settled bool) error {
	if s.turn != nil && s.turn.row.ID == row.ID && s.turn.held() {
		return s.finish(ctx, s.turn.failFor(ctx, s.turn.deliverer.deliver(ctx)))
	}
	if row.Waiting() && !settled {
		s.release()
		return nil // its Agent is called when the answers are there
	}
	err := s.takeUp(ctx, row)
	if err == nil && s.turn.row.Waiting() {
		err = s.turn.failFor(ctx, s.turn.deliverer.deliver(ctx))
	}
	return s.finish(ctx, err)
}

// takeUp brings a Turn into memory that is under way and has no open Run. Its Agent is asked whether it is still there,
// unless it has ended to wait.
func (s *session) takeUp(ctx context.Context, row store.Turn) error {
	s.release()
	s.turn = newTurn(s, row)
	last, err := s.turn.resumeAfter(ctx)
	if err != nil || row.Waiting() {
		return err
	}
	return s.turn.reattach(ctx, last)
}

// begunBy starts from what a request has just written. The log is opened before anybody
// can tail what comes, so that they need not ask the store either.
func (s *session) begunBy(b begun) {
	s.first, s.transcript, s.log.row = &b, b.messages, b.todo.Session
	s.log.writer = s.m.cfg.Log.OpenAt(s.id, b.todo.LastSeq)
}

func (s *session) pendingWork(ctx context.Context) (store.Agenda, error) {
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
		if leftCalled(s.turn.row) { // its Agent has to be found before anything can be delivered to it
			if err := s.turn.reattach(ctx, run.ID); err != nil {
				return err
			}
		}
	}
	return s.finish(ctx, s.turn.drive(ctx, run))
}

// finish forgets a Turn that holds nothing any more, and turns a refusal of its own
// content into the end of its Run.
// The store refuses what its own rules forbid, such as a row of a machine that does not move like that. Trying again
// would fail again, so the Run is ended, by a log that is opened anew at its true end.
func (s *session) finish(ctx context.Context, err error) error {
	if err == nil && s.turn != nil && (s.turn.held() || s.turn.writer.run != nil) {
		return nil
	}
	s.release()
	if errors.Is(err, store.ErrData) || errors.Is(err, store.ErrConflict) {
		s.m.cfg.Logger.Error("turn failed: the store refuses its content", slog.String("session_id", s.id), slog.Any("error", err))
		if err = s.log.reopen(ctx, s.m.cfg.Log); err == nil {
			err = s.endBroken(ctx, fault.New(CodeStorageRefused, "The answer could not be kept."))
		}
	}
	return err
}

// ring is called with Sessions.mu held.
func (s *session) ring() {
	s.rung = true
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

func (s *session) release() {
	if s.turn != nil {
		s.turn.deliverer.release()
		s.turn = nil
	}
}
