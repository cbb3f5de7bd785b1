package livefeed

import (
	"context"
	"sync"
	"sync/atomic"

	"aqueduct/store"
)

const (
	// Hints of all Sessions that wait for Run.
	hubFrames, hubBytes = 4096, 16 << 20
	// Hints that wait for one watcher.
	watchFrames, watchBytes = 512, 2 << 20
)

// Config is what a Hub needs.
type Config struct {
	Sessions store.SessionReader
	// Dropped is called for each hint that was lost for want of room; it may be nil.
	Dropped func()
}

// Hub passes hints from publishers to watchers. Only Run reads its queue and asks for owners, so publishers wait for no
// database.
type Hub struct {
	cfg    Config
	queue  *queue
	owners owners

	watching atomic.Int64 // the number of watches, for publishers, who take no lock to find that there is none
	mu       sync.Mutex
	watches  map[*Watch]struct{}
}

// New makes a Hub.
func New(cfg Config) *Hub {
	if cfg.Dropped == nil {
		cfg.Dropped = func() {}
	}
	return &Hub{
		cfg: cfg, queue: newQueue(hubFrames, hubBytes), watches: make(map[*Watch]struct{}),
		owners: owners{sessions: cfg.Sessions, known: make(map[string]store.Principal)},
	}
}

// Watched reports whether there is a watcher. A publisher asks before it makes a costly hint.
func (h *Hub) Watched() bool { return h.watching.Load() > 0 }

// Publish sends a hint to the watchers that may see a Session. It never waits, and owns the frame from then on.
func (h *Hub) Publish(sessionID string, frame []byte) {
	if sessionID != "" {
		h.enqueue(hint{sessionID, frame})
	}
}

// PublishAll sends a hint to the watchers of proxies. It never waits, and owns the frame from then on.
func (h *Hub) PublishAll(frame []byte) { h.enqueue(hint{frame: frame}) }

// enqueue drops what no page watches before it is queued, so that a server without pages does no work here.
func (h *Hub) enqueue(x hint) {
	if len(x.frame) > 0 && h.Watched() && !h.queue.put(x) {
		h.cfg.Dropped()
	}
}

// Run hands hints round until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	for {
		got, err := h.queue.take(ctx)
		if err != nil {
			return nil
		}
		for _, x := range got {
			h.dispatch(ctx, x)
		}
	}
}

// dispatch gives one hint to those who want it. A watcher whose queue is full loses the hint alone.
func (h *Hub) dispatch(ctx context.Context, x hint) {
	if !h.Watched() {
		return
	}
	var owner store.Principal
	if x.sessionID != "" {
		var known bool
		if owner, known = h.owners.of(ctx, x.sessionID); !known {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches {
		if w.wants(x, owner) && !w.queue.put(x) {
			h.cfg.Dropped()
		}
	}
}
