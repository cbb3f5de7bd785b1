package livefeed

import (
	"context"

	"aqueduct/store"
)

// Wanted is what a watcher asks for.
type Wanted struct {
	In        store.Scope // what it may see
	SessionID string      // only this Session's; "" is all it may see
	Proxies   bool        // also hints about proxies, which have no owner
}

// Watch is one watcher's hints. Next is for one goroutine at a time; Close may come from any.
type Watch struct {
	hub   *Hub
	what  Wanted
	queue *queue
}

// Subscribe begins to watch. The caller calls Close.
func (h *Hub) Subscribe(what Wanted) *Watch {
	w := &Watch{hub: h, what: what, queue: newQueue(watchFrames, watchBytes)}
	h.mu.Lock()
	h.watches[w] = struct{}{}
	h.watching.Store(int64(len(h.watches)))
	h.mu.Unlock()
	return w
}

// Close ends it. A Next that waits is ended by its context, not by Close.
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

// wants reports whether a hint is for this watcher: one about a proxy for who asked for those, one of a Session for its
// owner, for whom it is shared with, and for who sees everything. The Scopes are those of single users; one of a whole
// tenant would see only what is its own.
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
