package proxy

import (
	"context"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
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

// history is a session that is being taken up: what the agent says in it until that is over was
// said before.
type history struct {
	session string
	news    chan struct{} // capacity 1: something was repeated

	mu   sync.Mutex
	came bool // something was repeated
	user bool // and last a user's message
}

// enter begins to mark what is said in a session as history.
func (a *agent) enter(session string) *history {
	h := &history{session: session, news: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = h
	return h
}

// live ends the marking.
func (a *agent) live() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = nil
}

// repeats says whether an update is history.
func (a *agent) repeats(u acp.UpdateParams) bool {
	a.mu.Lock()
	h := a.history
	a.mu.Unlock()
	if h == nil || h.session != u.SessionID {
		return false
	}
	h.take(acp.ReadUpdate(u.Update).Variant)
	return true
}

// take notes a repeated update. What tells the session's state now is no history.
func (h *history) take(variant string) {
	switch variant {
	case acp.UserMessageChunk, acp.AgentMessageChunk, acp.AgentThoughtChunk, acp.ToolCallNew, acp.ToolCallUpdate, acp.PlanWhole:
	default:
		return
	}
	h.mu.Lock()
	h.came, h.user = true, variant == acp.UserMessageChunk
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

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
