package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

const (
	// pollEvery is how often this replica looks for work that no ring announced: what makes a lost ring cost time and
	// nothing else.
	pollEvery = 2 * time.Second
	// hurryEvery is how often Commands are looked for while a caller may wait for one: the cancel of an agent's Turn ends
	// all that it called, one after the other, and each may be driven by another replica than its caller. With six of them
	// that is well below a second.
	hurryEvery = 100 * time.Millisecond
	// maxArmed is how many open Questions are read at once to arm their deadlines.
	maxArmed = store.MaxPageLimit
	// strandedEvery is how often Turns are looked for that nothing moves any more. One is found at the second look: a
	// commit may be on its way at the first.
	strandedEvery = 10 * pollEvery
	// strandedMost is how many are ended at a time.
	strandedMost = 100
)

// reconciler finds work that no request on this replica announces: what an earlier process left, the Sessions of replicas
// that are gone, rings that were lost, Turns that nothing moves. It only wakes Sessions; they do the work. One goroutine,
// run, uses it.
// It is what makes rings an optimization: with every ring lost, work begins within pollEvery.
type reconciler struct {
	cfg       *Config
	deadlines *approval.Deadlines
	wake      func(sessionID string)
	drives    func(sessionID string) bool // a goroutine of this replica drives the Session
	busy      func() bool                 // something is driven here, or a caller reads what it called
	draining  func() bool                 // this replica drains

	unarmed  bool            // more Questions are open than were armed
	suspects map[string]bool // Turns that seemed stranded at the last look
	replicas replicaWatch
}

// begin takes up what an earlier process of this replica left: deadlines run on from the span that remains, and every
// Session with work is driven. Work is also a Turn whose Agent an earlier process called: that one is held again, or
// found to be gone, before a person decides for it. Then it takes over from the replicas that are gone. Their calls of models
// end before anything else, so that Turns which end because of the same have them in their usage.
func (c *reconciler) begin(ctx context.Context) error {
	if err := c.nameCutLogs(ctx); err != nil {
		return err
	}
	if err := c.cfg.EndCalls(ctx); err != nil {
		return err
	}
	if _, err := c.armSoonest(ctx); err != nil {
		return err
	}
	if err := c.wakeAll(ctx); err != nil {
		return err
	}
	// In this order: a replica that leaves in between has been listed, and so is missed.
	if err := c.watch(ctx); err != nil {
		return err
	}
	return c.takeOver(ctx, store.Replica{})
}

// nameCutLogs warns of threads whose logs had overlapping rows, which a migration moved away. It does so at every start,
// until the operator has deleted those rows.
func (c *reconciler) nameCutLogs(ctx context.Context) error {
	cut, err := c.cfg.Store.CutLogs(ctx)
	for _, l := range cut {
		c.cfg.Logger.Warn("the log of a thread had overlapping rows; it is kept up to the first, the others are in events_cut",
			slog.String("session_id", l.SessionID), slog.String("thread_id", l.ExternalID), slog.Int64("kept_to", l.After))
	}
	return err
}

// run looks until ctx ends.
func (c *reconciler) run(ctx context.Context) {
	tick, watch, hurry := time.NewTicker(pollEvery), time.NewTicker(watchEvery), time.NewTicker(hurryEvery)
	defer tick.Stop()
	defer watch.Stop()
	defer hurry.Stop()
	stranded := time.NewTicker(strandedEvery)
	defer stranded.Stop()
	for {
		var err error
		var looking string
		select {
		case <-stranded.C:
			looking, err = "could not look for stranded turns and calls", errors.Join(c.cfg.EndCalls(ctx), c.endStranded(ctx))
		case <-watch.C:
			looking, err = "could not watch the other replicas", c.watch(ctx)
		case <-hurry.C:
			looking, err = "could not look for commands", c.hurry(ctx)
		case <-tick.C:
			looking, err = "could not look for work", c.poll(ctx)
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn(looking, slog.Any("error", err))
		}
	}
}

func (c *reconciler) poll(ctx context.Context) error {
	err := c.wakeAll(ctx)
	if err == nil && c.unarmed {
		_, err = c.armSoonest(ctx)
	}
	return err
}

// wakeAll wakes every Session that has work.
func (c *reconciler) wakeAll(ctx context.Context) error {
	ids, err := c.cfg.Store.SessionsWithWork(ctx, store.System(), c.cfg.Replica)
	for _, id := range ids {
		c.wake(id)
	}
	return err
}

// hurry wakes the Sessions of this replica that another one has written a Command for, without a ring that arrived. It is
// one small query for all of them, and none where there is no other replica, or nothing under way here.
// While this replica drains, the Sessions that another one has given work to are looked for too: they are given up then.
func (c *reconciler) hurry(ctx context.Context) error {
	if len(c.replicas.known) == 0 {
		return nil
	}
	if c.draining() {
		if err := c.giveUp(ctx); err != nil {
			return err
		}
	}
	if !c.busy() {
		return nil
	}
	ids, err := c.cfg.Store.SessionsWithCommands(ctx, store.System(), c.cfg.Replica)
	for _, id := range ids {
		c.wake(id)
	}
	return err
}

// giveUp wakes the Sessions with work that are not driven here, which gives them up.
func (c *reconciler) giveUp(ctx context.Context) error {
	ids, err := c.cfg.Store.SessionsWithWork(ctx, store.System(), c.cfg.Replica)
	for _, id := range ids {
		if !c.drives(id) {
			c.wake(id)
		}
	}
	return err
}

// watch fences the replicas that died and takes over from those that are gone.
func (c *reconciler) watch(ctx context.Context) error {
	living, err := c.cfg.Store.ListReplicas(ctx)
	if err != nil {
		c.replicas.notListed()
		return err
	}
	var errs []error
	dead, gone := c.replicas.look(time.Now(), c.cfg.Replica, living)
	for _, r := range dead {
		c.cfg.Logger.Warn("replica fenced: its beat has stopped", slog.String("name", r.Name), slog.String("replica", r.ID))
		if err := c.cfg.Store.Fence(ctx, r.ID); err != nil {
			errs = append(errs, err) // it is still listed, and so is tried again
			continue
		}
		delete(c.replicas.known, r.ID)
		gone = append(gone, r)
	}
	for _, r := range gone {
		c.cfg.Logger.Info("replica is gone", slog.String("name", r.Name), slog.String("replica", r.ID))
		if err := c.takeOver(ctx, r); err != nil {
			c.replicas.keep(r)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// takeOver begins the work on the Sessions of a replica that was fenced; the zero Replica
// means all that were before this process began. Every replica does this at the same time:
// which of them gets a Session is decided when its goroutine claims it. Deadlines are armed
// by all, as ever, and the tools look for calls that no runner has any more. Calls of models are ended first (begin).
func (c *reconciler) takeOver(ctx context.Context, gone store.Replica) error {
	if err := c.cfg.EndCalls(ctx); err != nil {
		return err
	}
	if _, err := c.armSoonest(ctx); err != nil {
		return err
	}
	ids, err := c.cfg.Store.AbandonedSessions(ctx, store.System())
	if err != nil {
		return err
	}
	for _, id := range ids {
		c.wake(id)
	}
	if c.cfg.Tools != nil {
		c.cfg.Tools.Look()
	}
	if len(ids) > 0 {
		c.cfg.Logger.Info("taking over sessions", slog.Int("sessions", len(ids)), slog.String("from", gone.Name))
	}
	return nil
}

// endStranded ends Turns that nothing moves any more: without a Run, an open Question, anything to pass on, or a
// goroutine that drives them. There is no way to one that we know of. If there is, its thread must not stay unusable, and
// the operator must learn of it: each is an error in the log and in the metrics.
// A Turn is a suspect at one look and ended at the next, 20 seconds later: whatever was being committed has been by
// then.
func (c *reconciler) endStranded(ctx context.Context) error {
	turns, err := c.cfg.Store.StrandedTurns(ctx, store.System(), c.cfg.Replica, strandedMost)
	if err != nil {
		return err
	}
	suspects := make(map[string]bool, len(turns))
	for _, turn := range turns {
		if c.drives(turn.SessionID) {
			continue
		}
		if !c.suspects[turn.ID] {
			suspects[turn.ID] = true
			continue
		}
		c.cfg.Logger.Error("a turn was left without a future; it is ended", slog.String("session_id", turn.SessionID),
			slog.String("turn_id", turn.ID), slog.String("status", string(turn.Status)))
		if f := c.cfg.Meter.Stranded; f != nil {
			f()
		}
		if err := c.fail(ctx, turn); err != nil {
			return err
		}
	}
	c.suspects = suspects
	return nil
}

func (c *reconciler) fail(ctx context.Context, turn store.Turn) error {
	err := c.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: turn.SessionID, TurnID: turn.ID, Kind: store.CommandFail, CreatedAt: time.Now(),
			Payload: mustJSON(commandPayload{Code: CodeInternal, Message: "The turn was lost by a fault of the server, and was ended."}),
		})
	})
	if err == nil {
		c.cfg.Bell.Ring(turn.SessionID)
	}
	return err
}

// armSoonest arms the open Questions that expire first. When there are more than are read
// at once, the poll comes back for the others as these are settled.
func (c *reconciler) armSoonest(ctx context.Context) ([]store.ToolCall, error) {
	waiting, err := c.cfg.Store.ExpiringToolCalls(ctx, store.System(), maxArmed)
	if err != nil {
		return nil, err
	}
	for _, call := range waiting {
		c.deadlines.Arm(call.ID, max(0, time.Until(call.ExpiresAt)))
	}
	c.unarmed = len(waiting) == maxArmed
	return waiting, nil
}
