package proxy

import (
	"context"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
)

// How long a replay may pause before it counts as over. An agent that keeps the protocol has
// repeated everything when it answers session/load; gemini answers first and goes on repeating.
const (
	// historyFirst is how long the first repeated update may take when none came before the answer.
	historyFirst = 2 * time.Second
	// historyPause is how long the next one may take.
	historyPause = 300 * time.Millisecond
	// historyReply is how long the agent's part may take after a repeated user's message.
	historyReply = time.Second
)

// history is a session that is being taken up: what the agent sends in it until that is over was
// sent before.
// The updates are marked (replay) and sent all the same: the gateway compares them with what its log has.
type history struct {
	session string
	news    chan struct{} // capacity 1: something was repeated

	mu   sync.Mutex
	came bool // something was repeated
	user bool // and last a user's message
}

// enter begins to mark what is sent in a session as history.
func (ss *sessions) enter(session string) *history {
	// One at a time is enough, since only the run's goroutine takes sessions up.
	h := &history{session: session, news: make(chan struct{}, 1)}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.history = h
	return h
}

// live ends the marking.
func (ss *sessions) live() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.history = nil
}

// repeats reports whether an update is history.
func (ss *sessions) repeats(u wire.UpdateParams) bool {
	ss.mu.Lock()
	h := ss.history
	ss.mu.Unlock()
	// Updates of another session are live meanwhile.
	if h == nil || h.session != u.SessionID {
		return false
	}
	h.take(wire.ReadUpdate(u.Update).Variant)
	return true
}

// take notes a repeated update. What tells the session's state now is no history.
// Commands, modes and usage describe the session as it is now, so they are never history.
func (h *history) take(variant string) {
	switch variant {
	case wire.UserMessageChunk, wire.AgentMessageChunk, wire.AgentThoughtChunk, wire.ToolCallNew, wire.ToolCallUpdate, wire.PlanWhole:
	default:
		return
	}
	h.mu.Lock()
	h.came, h.user = true, variant == wire.UserMessageChunk
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// pause is how long the next repeated update may take now. After a user's message it is longer than between two pieces of
// one message: the agent's part still has to come.
func (h *history) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.came:
		return historyFirst
	case h.user:
		return historyReply
	}
	return historyPause
}

// wait returns when nothing was repeated for a while.
func (h *history) wait(ctx context.Context) error {
	for {
		timer := time.NewTimer(h.pause())
		select {
		case <-h.news:
			timer.Stop()
		case <-timer.C:
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
