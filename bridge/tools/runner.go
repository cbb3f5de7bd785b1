package tools

import (
	"context"
	"sync"
	"sync/atomic"
)

// runner owns the goroutines that execute calls on this replica: one for each call, at most as many as there are slots.
// It begins nothing before open and after close, and close waits for all of them.
//
// ended has an entry while a call is in work here. It makes begin safe to call from the request, from recovery and
// from a repetition at once: only one of them starts the work, and the others wait for the same end.
type runner struct {
	slots chan struct{}

	mu    sync.Mutex
	ctx   context.Context // of what is executed; nil before open and after close
	wg    sync.WaitGroup
	ended map[string]chan struct{} // of the calls in work here, by id; closed when the work is over

	leaving atomic.Bool // this replica drains
}

// drain waits until no call is in work here, or ctx ends, and returns how many are. From then on no approved call is
// begun for an agent that is not called from here.
func (r *runner) drain(ctx context.Context) (left int) {
	r.leaving.Store(true)
	for {
		r.mu.Lock()
		var one <-chan struct{}
		for _, done := range r.ended {
			one = done
		}
		left = len(r.ended)
		r.mu.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-one:
		case <-ctx.Done():
			return left
		}
	}
}

// open lets work begin, with ctx as the context of all of it.
func (r *runner) open(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
}

// close waits for the work that was begun. Its context has ended.
func (r *runner) close() {
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.wg.Wait()
}

// endOf returns a channel that is closed when the call's work here is over; nil when it is not in work here.
func (r *runner) endOf(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[id]
}

// begin starts a call's work, once on this replica. When the call is in work already it returns that work's channel and
// false. It returns no channel when every slot is taken, or when nothing is begun any more.
func (r *runner) begin(id string, work func(context.Context)) (<-chan struct{}, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil || r.ctx.Err() != nil {
		return nil, false
	}
	if done := r.ended[id]; done != nil {
		return done, false
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return nil, false
	}
	ctx, done := r.ctx, make(chan struct{})
	r.ended[id] = done
	r.wg.Go(func() {
		defer func() {
			<-r.slots
			r.mu.Lock()
			delete(r.ended, id)
			r.mu.Unlock()
			close(done)
		}()
		work(ctx)
	})
	return done, true
}
