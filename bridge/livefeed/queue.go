package livefeed

import (
	"context"
	"sync"

	"aqueduct/internal/wake"
)

// hint is one frame on its way. Without a Session it is about a proxy.
type hint struct {
	sessionID string
	frame     []byte
}

// queue holds hints up to a number and a size: the number bounds what small frames cost besides their bytes. What does
// not fit is refused, never waited for.
type queue struct {
	frames, bytes int // the most it holds
	ready         wake.Signal

	mu    sync.Mutex
	items []hint
	held  int
}

func newQueue(frames, bytes int) *queue {
	return &queue{frames: frames, bytes: bytes, ready: wake.New()}
}

// put reports whether there was room.
func (q *queue) put(h hint) bool {
	q.mu.Lock()
	fits := len(q.items) < q.frames && q.held+len(h.frame) <= q.bytes
	if fits {
		q.items = append(q.items, h)
		q.held += len(h.frame)
	}
	q.mu.Unlock()
	if fits {
		q.ready.Ring()
	}
	return fits
}

// take waits for all there is. Only one may wait at a time.
func (q *queue) take(ctx context.Context) ([]hint, error) {
	for {
		q.mu.Lock()
		got := q.items
		q.items, q.held = nil, 0
		q.mu.Unlock()
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
