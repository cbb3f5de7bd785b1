// This file is one caller's view of the Feed: the inbox's stream, a socket, a hint. A Follower gives first what is open,
// then what changes, each once, and goes on from the position that the caller names when it comes back.

package approval

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// StepKind is what a Step is about.
type StepKind int

// The kinds of Steps.
const (
	StepOpened  StepKind = iota // the caller may decide the Approval
	StepSettled                 // it is decided
	StepGone                    // it is not the caller's to decide any more
	StepSynced                  // all before is known; Open lists what is open
	StepPolicy                  // another policy is in force
)

// Step is one event of a Follower.
type Step struct {
	Kind StepKind
	// Seq is the position a caller that comes back goes on from; 0 when it stays as it was.
	Seq    int64
	Change store.ApprovalChange   // not of StepGone and StepSynced
	ID     string                 // of StepGone
	Open   []store.ApprovalChange // of StepSynced
	Policy audit.Policy           // of StepPolicy; of StepSynced the last change
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
	// policy is the position in the audit of the last change of the policy that the caller was shown.
	policy int64
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
	policy, err := audit.LastPolicy(ctx, w.feed.cfg.Store)
	if err != nil {
		return nil, err
	}
	synced := Step{Kind: StepSynced, Seq: after, Policy: policy, Open: make([]store.ApprovalChange, 0, len(open))}
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
	w.after, w.known, w.policy = after, known, policy.Seq
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
	if p := w.feed.policyKnown(); p.Seq > w.policy {
		w.policy = p.Seq
		steps = append(steps, Step{Kind: StepPolicy, Policy: p})
	}
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
