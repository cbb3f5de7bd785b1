package bridge

import (
	"context"
	"log/slog"

	"aqueduct/internal/fault"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// RefusedShuttingDown is the code that refuses new work while this replica drains.
const RefusedShuttingDown = "shutting_down"

// ShuttingDown returns the refusal of new work, with RefusedShuttingDown.
func ShuttingDown() error {
	return fault.New(RefusedShuttingDown, "This server is going away. Send the request again, to its successor.")
}

// Draining ends a replica's Sessions. It begins no new work, waits until Turns that are at work end, and gives up every other
// Session. Any goroutine may use it.
//
// A Session is given up only when no goroutine drives it. A goroutine that is started for it afterwards reads the owner again
// (Sessions.schedule). So this replica writes no row of a Session that another one may have claimed.
type Draining struct {
	sessions *Sessions
	moved    wake.Signal // rings when a Session is parked or retired, or a request was taken

	// Guarded by Sessions.mu.
	begun  bool
	taking int             // requests that may still begin a Turn: they came before begun was set
	gaveUp map[string]bool // Sessions whose owner is not this replica any more, or never was
}

// Wait begins to drain, and returns when no Session is at work here, or ctx ends; left is the number of Sessions that still
// are. From then on the only new prompts are those of Agents at work to other Agents. A Turn that waits for a person is not at
// work.
//
// Wait gives up at once the Sessions that this replica need not finish, so that another replica takes them. Those are Sessions
// at rest, with a queued Turn, or with a Turn whose Agent has ended to wait.
func (d *Draining) Wait(ctx context.Context) (left int) {
	s := d.sessions
	s.mu.Lock()
	d.begun = true
	for _, a := range s.active {
		a.ring()
	}
	s.mu.Unlock()
	for {
		if left = d.atWork(); left == 0 {
			return 0
		}
		select {
		case <-d.moved:
		case <-ctx.Done():
			return left
		}
	}
}

func (d *Draining) atWork() int {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	n := d.taking
	for _, a := range d.sessions.active {
		if !a.parked {
			n++
		}
	}
	return n
}

// Begun reports whether Wait was called.
func (d *Draining) Begun() bool {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	return d.begun
}

// take admits a request that may begin a Turn. A drain that begins meanwhile waits until taken is called. If begun is set, the
// request must not begin a Turn. handed is Sessions.handed as it is now.
func (d *Draining) take() (begun bool, handed int, taken func()) {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	d.taking++
	return d.begun, d.sessions.handed, func() {
		d.sessions.mu.Lock()
		defer d.sessions.mu.Unlock()
		d.taking--
		d.moved.Ring()
	}
}

// park notes whether the Session's Turn waits for people alone. A drain does not wait for those.
func (d *Draining) park(a *session, parked bool) {
	if a.parked == parked { // its goroutine alone writes it
		return
	}
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	a.parked = parked
	d.moved.Ring()
}

// giveUp has another replica take a Session that this one does not drive. It is called with Sessions.mu held, while
// draining. A Session that an agent's call began stays: its caller may be at work here.
func (d *Draining) giveUp(sessionID string) {
	s := d.sessions
	if d.gaveUp[sessionID] || s.running == nil || s.running.Err() != nil {
		return
	}
	d.gaveUp[sessionID] = true
	s.handed++
	running := s.running
	s.wg.Go(func() {
		err := s.cfg.Store.InTx(running, func(tx store.Tx) error { return tx.ReleaseSession(running, sessionID, s.cfg.Replica) })
		s.cfg.Log.Forget(sessionID)             // tails here read the rows that another replica writes from now on; no transcript is read any more
		if err != nil && running.Err() == nil { // the next look at the work tries again
			s.cfg.Logger.Warn("session not given up", slog.String("session_id", sessionID), slog.Any("error", err))
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(d.gaveUp, sessionID)
		}
	})
}

// leaves reports whether this replica leaves a Session's reserved Run to another one, because it drains. It does not leave Runs
// of child Sessions, or of a Turn that is at work here. With taken, this replica took the prompt before it began to drain, and
// does not leave its Run either.
func (d *Draining) leaves(a *session, run store.Run, taken bool) bool {
	if taken || a.log.row.IsChild() || a.turn != nil && a.turn.row.ID == run.TurnID && a.turn.held() {
		return false
	}
	return d.Begun()
}
