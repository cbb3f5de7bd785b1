package approval

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

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

// StepKind is what a Step is about.
type StepKind int

// The kinds of Steps.
const (
	StepOpened  StepKind = iota // the caller may decide the Approval
	StepSettled                 // it is decided
	StepGone                    // it is not the caller's to decide any more
	StepSynced                  // all before is known; Open lists what is open
)

// Step is one event of a Follower.
type Step struct {
	Kind StepKind
	// Seq is the position a caller that comes back goes on from; 0 when it stays as it was.
	Seq    int64
	Change store.ApprovalChange   // not of StepGone and StepSynced
	ID     string                 // of StepGone
	Open   []store.ApprovalChange // of StepSynced
}

// Follower reads what one caller may decide: what is open first, then what changes.
//
// It gives every change once and in order, over any number of errors: state is changed only after everything of a look
// has been read. It is used by one goroutine, that of the stream.
type Follower struct {
	feed  *Feed
	in    store.Scope
	bell  wake.Signal
	after int64
	fresh bool // the caller has no position: it is shown all that is open
	begun bool
	// known are the open ones that the caller was shown, each with the position of its opening;
	// 0 while that has none.
	known     map[string]int64
	reconcile atomic.Bool
}

// Follow begins to follow what the Scope may decide, behind a position; 0 shows first what is
// open. Close must be called.
func (f *Feed) Follow(in store.Scope, after int64) *Follower {
	w := &Follower{feed: f, in: in, bell: wake.New(), after: after, fresh: after == 0, known: make(map[string]int64)}
	f.mu.Lock()
	f.watches[w] = struct{}{}
	f.mu.Unlock()
	f.Look()
	return w
}

// Close ends it.
func (w *Follower) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.watches, w)
}

// Next waits for Steps and gives those that are ready, oldest first. After an error it can be
// called again and goes on where it was: what it has given is not given again, and nothing
// is left out.
func (w *Follower) Next(ctx context.Context) ([]Step, error) {
	if !w.begun {
		steps, err := w.begin(ctx)
		w.begun = err == nil
		return steps, err
	}
	for {
		select {
		case <-w.bell:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		steps, err := w.look(ctx)
		if err != nil {
			w.bell.Ring() // to look again
		}
		if err != nil || len(steps) > 0 {
			return steps, err
		}
	}
}

// begin shows what is open, or what has happened since the caller's position. The position is
// read first: what changes meanwhile is read twice and given once.
func (w *Follower) begin(ctx context.Context) ([]Step, error) {
	if _, err := w.feed.sequence(ctx); err != nil { // without Followers nothing was sequenced
		return nil, err
	}
	var steps []Step
	var after int64
	var err error
	if w.fresh {
		after, err = w.feed.Last(ctx)
	} else {
		steps, after, err = w.changes(ctx, w.after, nil)
	}
	if err != nil {
		return nil, err
	}
	open, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	synced := Step{Kind: StepSynced, Seq: after, Open: make([]store.ApprovalChange, 0, len(open))}
	known := make(map[string]int64, len(open))
	for _, c := range open {
		if !w.fresh && (c.Seq == 0 || c.Seq > after) {
			continue // its opening follows as a change
		}
		known[c.Approval.ID] = c.Seq
		synced.Open = append(synced.Open, c)
		if w.fresh {
			steps = append(steps, Step{Kind: StepOpened, Change: c})
		}
	}
	w.after, w.known = after, known
	return append(steps, synced), nil
}

// open is everything that is open now.
func (w *Follower) open(ctx context.Context) ([]store.ApprovalChange, error) {
	var all []store.ApprovalChange
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		some, err := w.feed.cfg.Store.OpenApprovals(ctx, w.in, page)
		all = append(all, some...)
		if err != nil || len(some) < page.Size() {
			return all, err
		}
		page.After = some[len(some)-1].Approval.ID
	}
}

// changes reads all Steps behind a position. known is what was shown, and is kept up; nil shows
// every change.
// An Approval may be shown before it has a position, when the caller has just come. Its opening then follows as a
// change, and is left out by the position 0 that known has for it.
func (w *Follower) changes(ctx context.Context, after int64, known map[string]int64) ([]Step, int64, error) {
	var steps []Step
	for {
		some, err := w.feed.cfg.Store.ApprovalChanges(ctx, w.in, after, store.MaxPageLimit)
		if err != nil {
			return nil, after, err
		}
		for _, c := range some {
			after = c.Seq
			shown, is := known[c.Approval.ID]
			step := Step{Kind: StepOpened, Seq: c.Seq, Change: c}
			switch {
			case c.Settled:
				step.Kind = StepSettled
				delete(known, c.Approval.ID)
			case is && (shown == 0 || shown == c.Seq): // it was shown before it had this position
				known[c.Approval.ID] = c.Seq
				continue
			case known != nil:
				known[c.Approval.ID] = c.Seq
			}
			steps = append(steps, step)
		}
		if len(some) < store.MaxPageLimit {
			return steps, after, nil
		}
	}
}

// look reads what has changed since the last look.
func (w *Follower) look(ctx context.Context) ([]Step, error) {
	again := w.reconcile.Swap(false)
	known := maps.Clone(w.known)
	steps, after, err := w.changes(ctx, w.after, known)
	if err == nil && again {
		var more []Step
		more, err = w.compare(ctx, known)
		steps = append(steps, more...)
	}
	if err != nil {
		if again {
			w.reconcile.Store(true)
		}
		return nil, err
	}
	w.after, w.known = after, known
	return steps, nil
}

// compare finds what the caller may decide, or may not any more, though no Approval changed.
// A delegation or a share begins and ends without a row of an Approval changing, so the whole list is compared.
func (w *Follower) compare(ctx context.Context, known map[string]int64) ([]Step, error) {
	open, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	var steps []Step
	still := make(map[string]bool, len(open))
	for _, c := range open {
		still[c.Approval.ID] = true
		if _, is := known[c.Approval.ID]; !is {
			known[c.Approval.ID] = c.Seq
			steps = append(steps, Step{Kind: StepOpened, Change: c})
		}
	}
	for id := range known {
		if still[id] {
			continue
		}
		// One that was settled has no position yet, and follows as a change.
		switch _, err := w.feed.cfg.Store.Approval(ctx, w.in, id); {
		case errors.Is(err, store.ErrNotFound):
			delete(known, id)
			steps = append(steps, Step{Kind: StepGone, ID: id})
		case err != nil:
			return nil, err
		}
	}
	return steps, nil
}
