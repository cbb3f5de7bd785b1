// This file sends what is due: it chooses rows of the outbox, claims each by compare-and-set, sends it, and writes down what
// came of it. A replica that dies between the claim and the note leaves a row that is due again when the claim is over, so
// a receiver may get a delivery twice, and knows it by its id.

package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/store"
)

const (
	// maxFlying bounds deliveries at once, and maxOfOne those to one target, so that one that
	// hangs does not hold up the others.
	maxFlying = 16
	maxOfOne  = 4
	// look is how many due rows are looked at; more than fly, as a target's may be in front.
	look = 200
	// sendTime bounds one delivery. A claim outlives it by far, so that none is sent twice
	// but after a crash.
	sendTime  = 15 * time.Second
	claimTime = time.Minute
	// noteTime bounds writing down what became of one, when the server is leaving too.
	noteTime = 5 * time.Second
)

// round starts as many of the due deliveries as may fly.
func (n *Notifier) round(ctx context.Context, sending *sync.WaitGroup) error {
	// Rows of every kind and target come in the order in which they are due. Those that may not fly now stay due.
	due, err := n.cfg.Store.OutboxDue(ctx, store.System(), n.cfg.Now(), look)
	if err != nil {
		return err
	}
	for _, i := range due {
		// Rows of other kinds are sent by other workers.
		if address := n.kinds[i.Kind]; address == nil || !n.takeOff(i) {
			continue
		}
		sending.Go(func() {
			n.deliver(ctx, i)
			n.land(i)
			n.Kick() // there may be more than could fly
		})
	}
	return nil
}

// takeOff counts a delivery as under way, and is false where there are too many. A row in flight is still due until its
// claim is committed, so it may be taken off twice; the second one loses the claim.
func (n *Notifier) takeOff(i store.OutboxItem) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := i.Kind + " " + i.Target
	if n.total >= maxFlying || n.flying[at] >= maxOfOne {
		return false
	}
	n.total++
	n.flying[at]++
	return true
}

// land takes it off the counts again. A target without a delivery leaves the map: rows of other kinds name theirs
// freely.
func (n *Notifier) land(i store.OutboxItem) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := i.Kind + " " + i.Target
	n.total--
	if n.flying[at]--; n.flying[at] == 0 {
		delete(n.flying, at)
	}
}

// deliver claims one, sends it and writes down what became of it.
func (n *Notifier) deliver(ctx context.Context, i store.OutboxItem) {
	now := n.cfg.Now()
	mine := false
	err := n.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		mine, err = tx.ClaimOutbox(ctx, i.ID, now, now.Add(claimTime))
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
}

// never is the next time of a row that was given up: it stays, with its last error.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

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
		next, reason, counted = never(), "gave up: "+reason, "gave_up"
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
