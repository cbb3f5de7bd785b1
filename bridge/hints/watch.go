package hints

import (
	"context"

	"aqueduct/store"
)

// Wanted is what a watcher asks for.
type Wanted struct {
	In        store.Scope // whose eyes it has
	SessionID string      // only this Session's; "" is all it may see
	Proxies   bool        // hints about proxies too, which belong to nobody
}

// Watch is one watcher's hints.
type Watch struct {
	hub   *Hub
	what  Wanted
	queue *queue
}

// Subscribe begins to watch. Whoever subscribes calls Close.
func (h *Hub) Subscribe(what Wanted) *Watch {
	w := &Watch{hub: h, what: what, queue: newQueue(watchFrames, watchBytes)}
	h.mu.Lock()
	h.watches[w] = struct{}{}
	h.watching.Store(int64(len(h.watches)))
	h.mu.Unlock()
	return w
}

// Close ends it.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	delete(w.hub.watches, w)
	w.hub.watching.Store(int64(len(w.hub.watches)))
	w.hub.mu.Unlock()
}

// Next waits for hints and gives all there are, oldest first; its error is ctx's.
func (w *Watch) Next(ctx context.Context) ([][]byte, error) {
	got, err := w.queue.take(ctx)
	frames := make([][]byte, len(got))
	for i, x := range got {
		frames[i] = x.frame
	}
	return frames, err
}

func (w *Watch) wants(x hint, owner store.Principal) bool {
	if x.sessionID == "" {
		return w.what.Proxies && w.what.SessionID == ""
	}
	if w.what.SessionID != "" && w.what.SessionID != x.sessionID {
		return false
	}
	in := w.what.In
	if in.Session() != "" { // shared with who watches
		return in.Session() == x.sessionID && in.Tenant() == owner.Tenant
	}
	return in.All() || owner.Tenant != "" && in.Tenant() == owner.Tenant && in.User() == owner.User
}
