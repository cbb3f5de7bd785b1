// This file sends what is due: it chooses rows of the outbox, claims each by compare-and-set, sends it, and writes down what
// came of it. A replica that dies between the claim and the note leaves a row that is due again when the claim is over, so
// a receiver may get a delivery twice, and knows it by its id.

package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aqueduct/store"
)

const (
	// maxOfOne bounds deliveries at once to one target. Targets share no bound, because deliveries to targets that hang would
	// use it up.
	maxOfOne = 4
	// sendTime bounds one delivery. A claim outlives it by far, so that none is sent twice
	// but after a crash.
	sendTime  = 15 * time.Second
	claimTime = time.Minute
	// noteTime bounds writing down what became of one, when the server is leaving too.
	noteTime = 5 * time.Second
)

// round starts as many of each target's due deliveries as may fly.
func (n *Notifier) round(ctx context.Context, sending *sync.WaitGroup) error {
	lanes, err := n.cfg.Store.OutboxLanes(ctx, store.System(), "")
	for _, lane := range lanes {
		if n.kinds[lane.Kind] != nil { // rows of other kinds are sent by other workers
			err = errors.Join(err, n.look(ctx, lane, sending))
		}
	}
	return err
}

// look starts the deliveries of one target. A row whose claim is not committed yet is due still, so twice as many are
// read as fly.
func (n *Notifier) look(ctx context.Context, lane store.OutboxLane, sending *sync.WaitGroup) error {
	if n.full(lane) {
		return nil
	}
	due, err := n.cfg.Store.OutboxDue(ctx, store.System(), lane, n.cfg.Now(), 2*maxOfOne)
	if err != nil {
		return err
	}
	for _, i := range due {
		if !n.takeOff(lane, i.ID) {
			continue
		}
		sending.Go(func() {
			n.deliver(ctx, i)
			n.land(lane, i.ID)
			n.Kick() // there may be more than could fly
		})
	}
	return nil
}

// full reports whether as many deliveries to a target are under way as may be.
func (n *Notifier) full(lane store.OutboxLane) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.flying[lane]) >= maxOfOne
}

// takeOff notes a delivery as under way, and is false where it is, or where there are too many.
func (n *Notifier) takeOff(lane store.OutboxLane, id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flying[lane][id] || len(n.flying[lane]) >= maxOfOne {
		return false
	}
	if n.flying[lane] == nil {
		n.flying[lane] = make(map[string]bool)
	}
	n.flying[lane][id] = true
	return true
}

// land takes it out again. A target without a delivery leaves the map: rows of other kinds name theirs freely.
func (n *Notifier) land(lane store.OutboxLane, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(n.flying[lane], id); len(n.flying[lane]) == 0 {
		delete(n.flying, lane)
	}
}

// deliver claims one, sends it and writes down what became of it.
func (n *Notifier) deliver(ctx context.Context, i store.OutboxItem) {
	now := n.cfg.Now()
	mine := false
	err := n.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimOutbox(ctx, i, now, now.Add(claimTime))
		return err
	})
	if err != nil || !mine { // another replica's, or for the next round
		return
	}
	i.Tries++ // as the claim did in the row
	said := n.send(ctx, i)
	if ctx.Err() != nil && !said.ok {
		said = outcome{reason: "interrupted", after: -1} // a successor may try at once
	}
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := n.note(note, i, said); err != nil {
		n.cfg.Logger.Warn("a delivery was not noted and will be made again", slog.String("delivery", i.ID), slog.Any("error", err))
	}
	if n.landed != nil {
		n.landed(i)
	}
}

// note writes down what became of a try. Where that fails the claim runs out and the row is sent once more: at least
// once is what is promised.
func (n *Notifier) note(ctx context.Context, i store.OutboxItem, said outcome) error {
	now := n.cfg.Now()
	if said.ok {
		err := n.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxDone(ctx, i.ID, now) })
		n.cfg.Observe("sent")
		return err
	}
	next, again := n.next(i, said, now)
	reason, counted := said.reason, "failed"
	if !again {
		next, reason, counted = store.NeverDue(), "gave up: "+reason, "gave_up"
		n.cfg.Logger.Error("a delivery was given up", slog.String("delivery", i.ID), slog.String("kind", i.Kind),
			slog.Int("tries", i.Tries), slog.String("reason", said.reason))
	}
	err := n.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.OutboxRetry(ctx, i.ID, next, reason) })
	n.cfg.Observe(counted)
	return err
}

const (
	firstWait = 5 * time.Second
	maxWait   = time.Hour
	// keepTrying is how long a delivery is tried.
	keepTrying = 24 * time.Hour
)

// next is when a delivery is tried again: after twice as long each time, less up to half of
// it by chance, so that those that failed together do not come back together.
func (n *Notifier) next(i store.OutboxItem, said outcome, now time.Time) (time.Time, bool) {
	if said.final {
		return time.Time{}, false
	}
	if said.after < 0 {
		return now, true
	}
	wait := maxWait
	// From the tenth try on the wait is the longest anyway, and a shift by more would overflow.
	if try := i.Tries - 1; try < 10 {
		wait = min(maxWait, firstWait<<max(try, 0))
	}
	wait -= time.Duration(n.cfg.Jitter() * float64(wait) / 2)
	next := now.Add(max(wait, min(said.after, maxWait)))
	return next, next.Sub(i.CreatedAt) <= keepTrying
}
