package approval

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

const (
	// feedPoll is how often a Feed that is followed looks whatever rang: changes of other
	// replicas are found by it, and lost rings cost no more.
	feedPoll = 2 * time.Second
	// feedRest is the least time between two looks: while all Sessions talk the bell rings for
	// every commit, and few of those change an Approval.
	feedRest = 20 * time.Millisecond
	// reconcileEvery is how often Followers compare what they have shown with what is open: a
	// delegation that runs out changes no Approval.
	reconcileEvery = 30 * time.Second
	// sequenceAtOnce bounds how many changes get a position in one transaction.
	sequenceAtOnce = 500
)

// FeedConfig is what a Feed needs.
type FeedConfig struct {
	Store  store.Store
	Logger *slog.Logger
	// Wanted reports whether Changed is of use now; nil is never.
	Wanted func() bool
	// Changed is called with every change, in order, while it is wanted.
	Changed func(context.Context, []store.ApprovalChange)
}

// Feed gives changes of Approvals their positions and wakes the Followers they concern. Without
// a Follower it does nothing.
//
// A change gets its position (seq) not in its own transaction but afterwards, here, by one transaction at a time over
// all replicas. Positions that were given before the commit would become visible out of order, and a Follower that had
// passed one would never see the change behind it.
//
// It is woken by any ring and looks at most every feedRest; with no Follower and no page that watches it reads
// nothing.
type Feed struct {
	cfg  FeedConfig
	bell wake.Signal

	mu      sync.Mutex
	watches map[*Follower]struct{}
	policy  audit.Policy // as it was read last

	// Run's alone.
	last       int64     // the newest position that was read
	started    bool      // last is known
	reconciled time.Time // when Followers compared last
}

// NewFeed makes a Feed; Run must be running for Followers to be woken.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.Wanted == nil {
		cfg.Wanted = func() bool { return false }
	}
	return &Feed{cfg: cfg, bell: wake.New(), watches: make(map[*Follower]struct{})}
}

// Look makes the Feed look for changes. It never blocks.
func (f *Feed) Look() { f.bell.Ring() }

// Reconcile makes the tenant's Followers compare what they have shown with what is open: who may
// decide has changed, though no Approval has.
func (f *Feed) Reconcile(tenant string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		if w.in.Tenant() == tenant {
			w.reconcile.Store(true)
			w.bell.Ring()
		}
	}
}

// Last is the newest position.
func (f *Feed) Last(ctx context.Context) (int64, error) {
	return f.cfg.Store.LastApprovalChange(ctx, store.System())
}

// Run looks until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	tick := time.NewTicker(feedPoll)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		// The rest comes before the bell is read: what rings meanwhile is one ring, and nothing is lost by waiting.
		select {
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		polled := false
		select {
		case <-f.bell:
		case <-tick.C:
			polled = true
		case <-ctx.Done():
			return
		}
		rest.Reset(feedRest)
		if err := f.look(ctx, polled); err != nil && ctx.Err() == nil {
			f.cfg.Logger.Warn("could not look for changes of approvals", slog.Any("error", err))
		}
	}
}

// look gives positions to what has none, and wakes those whom it concerns.
// Followers are only rung; each reads its own changes, under its own scope, on its own goroutine.
func (f *Feed) look(ctx context.Context, polled bool) error {
	wanted := f.cfg.Wanted()
	f.mu.Lock()
	followed := len(f.watches) > 0
	f.mu.Unlock()
	if !wanted && !followed {
		f.started = false // changes from here on are not reported later
		return nil
	}
	begun := false
	if !f.started {
		last, err := f.Last(ctx)
		if err != nil {
			return err
		}
		// Changes before that position are not read here, so every Follower looks once by itself.
		f.last, f.started, begun, f.reconciled = last, true, true, time.Now()
	}
	if polled || begun {
		if err := f.lookPolicy(ctx); err != nil {
			return err
		}
	}
	found, err := f.sequence(ctx)
	if err != nil || !found && !polled && !begun { // what others gave positions to is found by the poll
		return err
	}
	tenants := make(map[string]bool)
	for {
		changes, err := f.cfg.Store.ApprovalChanges(ctx, store.System(), f.last, store.MaxPageLimit)
		if err != nil {
			return err
		}
		for _, c := range changes {
			f.last, tenants[c.Tenant] = c.Seq, true
		}
		if wanted && len(changes) > 0 {
			f.cfg.Changed(ctx, changes)
		}
		if len(changes) < store.MaxPageLimit {
			break
		}
	}
	compare := time.Since(f.reconciled) > reconcileEvery
	if compare {
		f.reconciled = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		if compare {
			w.reconcile.Store(true)
		}
		if compare || begun || tenants[w.in.Tenant()] || w.in.All() {
			w.bell.Ring()
		}
	}
	return nil
}

// lookPolicy wakes the Followers where another policy is in force.
func (f *Feed) lookPolicy(ctx context.Context) error {
	p, err := audit.LastPolicy(ctx, f.cfg.Store)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Seq <= f.policy.Seq {
		return nil
	}
	f.policy = p
	for w := range f.watches {
		w.bell.Ring()
	}
	return nil
}

// policyKnown is the last change of the policy as the Feed knows it.
func (f *Feed) policyKnown() audit.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.policy
}

// sequence reports whether there was something to give a position to.
func (f *Feed) sequence(ctx context.Context) (found bool, err error) {
	for {
		some, err := f.cfg.Store.ApprovalsUnsequenced(ctx, store.System())
		if err != nil || !some {
			return found, err
		}
		found = true
		var n int64
		err = f.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			n, err = tx.SequenceApprovals(ctx, sequenceAtOnce)
			return err
		})
		if err != nil || n == 0 { // the rest is being changed now, and its change rings
			return found, err
		}
	}
}
