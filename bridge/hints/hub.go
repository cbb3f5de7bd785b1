package hints

import (
	"context"
	"sync"
	"sync/atomic"

	"aqueduct/store"
)

const (
	// What waits to be handed round, from all Sessions.
	hubFrames, hubBytes = 4096, 16 << 20
	// What waits for one watcher.
	watchFrames, watchBytes = 512, 2 << 20
)

// Config is what a Hub needs.
type Config struct {
	Sessions store.SessionReader
	// Dropped hears of hints that were lost for want of room; nil is nobody.
	Dropped func()
}

// Hub hands hints from those who publish to those who watch. Run does the handing.
type Hub struct {
	cfg    Config
	queue  *queue
	owners owners

	watching atomic.Int64
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

// Watched reports whether anybody would hear a hint, for those who would have to make one.
func (h *Hub) Watched() bool { return h.watching.Load() > 0 }

// Publish tells those who may see a Session. It never waits, and takes the frame over.
func (h *Hub) Publish(sessionID string, frame []byte) {
	if sessionID != "" {
		h.enqueue(hint{sessionID, frame})
	}
}

// PublishAll tells those who watch proxies. It never waits, and takes the frame over.
func (h *Hub) PublishAll(frame []byte) { h.enqueue(hint{frame: frame}) }

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
			h.hand(ctx, x)
		}
	}
}

func (h *Hub) hand(ctx context.Context, x hint) {
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
