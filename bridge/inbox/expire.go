package inbox

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"
)

// Deadlines calls back when Questions run out of time. It counts by the monotonic clock:
// a wall clock that jumps makes nothing expire early or never.
type Deadlines struct {
	mu   sync.Mutex
	due  dueHeap
	ids  map[string]bool // that are armed
	wake chan struct{}
}

// NewDeadlines makes an empty set.
func NewDeadlines() *Deadlines {
	return &Deadlines{ids: make(map[string]bool), wake: make(chan struct{}, 1)}
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
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Disarm forgets a Question that is settled. One that is not armed is none.
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// idleWait is how long Run sleeps when nothing is armed; Arm wakes it.
const idleWait = time.Hour

// next takes the Question that is due, or tells how long to wait.
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

type deadline struct {
	at time.Time
	id string
}

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
