package approval

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"aqueduct/internal/wake"
)

// Deadlines calls back when Questions run out of time. It counts by the monotonic clock:
// a wall clock that jumps makes nothing expire early or never.
type Deadlines struct {
	mu   sync.Mutex
	due  dueHeap
	ids  map[string]bool // that are armed
	bell wake.Signal     // Arm rang: the next deadline may be earlier
}

// NewDeadlines makes an empty set.
func NewDeadlines() *Deadlines {
	return &Deadlines{ids: make(map[string]bool), bell: wake.New()}
}

// Arm has the Question expire after the given span. One that is armed stays as it is.
func (d *Deadlines) Arm(questionID string, after time.Duration) {
	d.mu.Lock()
	if d.ids[questionID] {
		d.mu.Unlock()
		return
	}
	d.ids[questionID] = true
	heap.Push(&d.due, deadline{at: time.Now().Add(after), id: questionID})
	d.mu.Unlock()
	d.bell.Ring()
}

// Disarm forgets a Question that is settled. One that is not armed is none.
// The heap is searched from its beginning, which is linear; what is armed is bounded by the open Questions of this
// replica.
func (d *Deadlines) Disarm(questionID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ids[questionID] {
		return
	}
	delete(d.ids, questionID)
	heap.Remove(&d.due, slices.IndexFunc(d.due, func(due deadline) bool { return due.id == questionID }))
}

// Run calls expire for every Question whose time has come, one after the other, until
// ctx ends. A Question settled meanwhile is expire's to notice.
func (d *Deadlines) Run(ctx context.Context, expire func(ctx context.Context, questionID string)) {
	for {
		id, wait := d.next()
		if id != "" {
			expire(ctx, id)
			continue
		}
		select {
		case <-time.After(wait):
		case <-d.bell:
		case <-ctx.Done():
			return
		}
	}
}

// idleWait is how long Run sleeps when nothing is armed; Arm wakes it.
const idleWait = time.Hour

// next takes the Question that is due, or returns how long to wait for the next one.
func (d *Deadlines) next() (id string, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.due) == 0 {
		return "", idleWait
	}
	if wait = time.Until(d.due[0].at); wait > 0 {
		return "", wait
	}
	id = heap.Pop(&d.due).(deadline).id
	delete(d.ids, id)
	return id, 0
}

// deadline is one armed Question. at has a monotonic part, which Less compares.
type deadline struct {
	at time.Time
	id string
}

// dueHeap has the Question that is due next at its front.
type dueHeap []deadline

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(deadline)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
