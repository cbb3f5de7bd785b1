// The budget of request bodies: how much memory all of them may use at once. A body waits a short while for its share
// and is then refused, which keeps a burst from failing and a flood from filling the memory.

package limit

import (
	"context"
	"sync"
	"time"
)

const (
	// SmallBody is what a body may have before a credential was shown: a token, or one decision. Bodies up to this size do not
	// count against the budget, so decisions and short prompts pass while others have used it up; the number of connections
	// bounds them.
	SmallBody = 8 << 10
	// anonymousShare is which part of the budget bodies may use whose sender is not known until
	// they have been read (signed webhooks), and callerShare the part of one principal. So no
	// sender of slow bodies can use up the budget of the others.
	anonymousShare = 8
	callerShare    = 2
)

// BodyBudget bounds the bytes of all request bodies that are held at once. mu guards the fields below it. Any request
// may call; waiting happens outside of the lock.
type BodyBudget struct {
	most int64
	body int64  // the largest body and one byte, by which one that is larger is known; it must fit into any share
	busy func() // a body was refused

	patience time.Duration

	// parked counts the bodies of requests that wait for a person (HeldBody.Park), and decoded what bodies take besides their bytes
	// (HeldBody.Weigh); both are nil in these themselves.
	parked, decoded *BodyBudget

	mu    sync.Mutex
	held  int64
	by    map[string]int64
	freed chan struct{} // closed when bytes are freed while a body waits
}

// NewBodyBudget makes a budget. busy is called for each body that is refused.
func NewBodyBudget(l Limits, busy func()) *BodyBudget {
	bound := func(parked, decoded *BodyBudget) *BodyBudget {
		return &BodyBudget{most: l.Bodies, body: l.Body + 1, patience: l.BodiesWait, busy: busy, parked: parked, decoded: decoded, by: make(map[string]int64)}
	}
	return bound(bound(nil, nil), bound(nil, nil))
}

// take counts n more bytes of a sender, and waits for them until ctx ends.
func (b *BodyBudget) take(ctx context.Context, sender string, n int64) error {
	for {
		freed := b.tryTake(sender, n)
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			b.busy()
			return refuse(BusyBodies)
		}
	}
}

// Share is the most that one principal may hold, and so the largest body.
func (b *BodyBudget) Share() int64 { return b.most / callerShare }

// shareOf is the most that a sender may hold.
func (b *BodyBudget) shareOf(sender string) int64 {
	if sender == "" {
		return max(b.most/anonymousShare, b.body)
	}
	return b.Share()
}

// tryTake counts the bytes if they fit, and else returns a channel that closes when some are freed. All waiters wake
// at once and try again, because the one that fits need not be the first.
func (b *BodyBudget) tryTake(sender string, n int64) <-chan struct{} {
	share := b.shareOf(sender)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n <= b.most && b.by[sender]+n <= share {
		b.held += n
		b.by[sender] += n
		return nil
	}
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// free gives bytes back and wakes those who wait.
func (b *BodyBudget) free(sender string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	if b.by[sender] -= n; b.by[sender] <= 0 {
		delete(b.by, sender)
	}
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// bytes are all that is held, also of those that are parked.
func (b *BodyBudget) bytes() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held + b.parked.bytes() + b.decoded.bytes()
}

// HeldBody is what one request holds of the budget. The goroutine of the request uses it, and calls Release at its
// end.
type HeldBody struct {
	budget *BodyBudget
	sender string
	n      int64
	weight *HeldBody // of the decoded budget; nil before Weigh
}

// Grow counts n more bytes for the request. It waits for Limits.BodiesWait at most; the error then has the code
// BusyBodies, and what was counted before stays counted until Release.
func (h *HeldBody) Grow(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, h.budget.patience)
	defer cancel()
	err := h.budget.take(ctx, h.sender, n)
	if err == nil {
		h.n += n
	}
	return err
}

// Hold begins to count the bytes of one request. sender is what a share is counted by; "" stands for all senders that
// are not known until their bodies have been read.
func (b *BodyBudget) Hold(sender string) *HeldBody { return &HeldBody{budget: b, sender: sender} }

// GrowTo counts as many more bytes as the request holds less than n.
func (h *HeldBody) GrowTo(ctx context.Context, n int64) error { return h.Grow(ctx, n-h.n) }

// Weigh counts n bytes that a body takes besides its own, once it is decoded. They have a budget of their own, of which all is taken
// at once: bodies that wait for it hold nothing of it, so they cannot wait for each other. A body that takes more than its sender's
// share takes all of the share, so that it is decoded alone.
func (h *HeldBody) Weigh(ctx context.Context, n int64) error {
	if h.budget.decoded == nil { // parked: it was decoded before
		return nil
	}
	if h.weight == nil {
		h.weight = h.budget.decoded.Hold(h.sender)
	}
	if n = min(n, h.budget.shareOf(h.sender)); n <= h.weight.n {
		return nil
	}
	return h.weight.GrowTo(ctx, n)
}

// Park counts what the request holds among the bodies of those that wait for a person, which may take days: it leaves its
// place in the budget to others, who would be refused for all that time. The memory stays bounded, by as much again as the
// budget has, of which a principal has its share too. A body that finds no room there is refused at once, since it is not known
// when there will be.
func (h *HeldBody) Park() error {
	room := h.budget.parked
	if h.n == 0 || room == nil {
		return nil
	}
	if room.tryTake(h.sender, h.n) != nil {
		h.budget.busy()
		return refuse(BusyBodies)
	}
	h.budget.free(h.sender, h.n)
	h.budget = room
	return nil
}

// Release gives back what the request holds.
func (h *HeldBody) Release() {
	if h.weight != nil {
		h.weight.Release()
		h.weight = nil
	}
	if h.n > 0 {
		h.budget.free(h.sender, h.n)
		h.n = 0
	}
}
