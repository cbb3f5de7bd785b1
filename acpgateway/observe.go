package acpgateway

import (
	"context"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// observe learns from a frame what is true from its arrival on, and puts it on record. It is false when the frame is not
// for a Turn.
//
// It runs on the link's goroutine, before the frame is queued, also when no Turn reads: that an agent has ended, asks
// or was renamed must be known when it happens and not when the next prompt reads it. What a frame means for the chat
// is the Turn's to find out.
func (c *channel) observe(ctx context.Context, f frame) bool {
	switch m := f.Frame.(type) {
	case *wire.ACPUpdate:
		c.inSession(stringOf(m.SessionID))
		c.agent.learn(f.update, c.queue.turn() != nil)
		if m.PromptID != nil {
			c.prompts.noteUpdate(*m.PromptID)
		}
		c.records.update(ctx, m, f.update)
	case *wire.ProxyUpdate:
		c.records.signal(ctx, m, f.signal)
		return c.observeSignal(m, f.signal)
	case *wire.Opened:
		c.agent.opened(m)
	case *wire.PromptResult:
		c.records.result(ctx, m)
		return c.promptEnded(m)
	case *wire.Exit:
		c.records.exit(ctx, m)
		c.exited("stopped")
	case *wire.Closed:
		c.exited("closed")
	case *wire.BranchCreated:
		c.records.branch(ctx, m)
	case *restarted:
		c.records.flush()
		c.queue.restart()
		c.exited("stopped")
	}
	return true
}

// inSession learns the agent's own id of the conversation. The first is kept.
func (c *channel) inSession(id string) {
	if c.agent.inSession(id) {
		c.note(func(row *store.SandboxInstance) { row.ACPSessionID = id })
	}
}

// promptEnded notes the end of a prompt, which ends once.
// The prompt's end and the time of last use change under one lock, or the sweep could see a channel without prompts
// that was last used an hour ago, and close the agent.
func (c *channel) promptEnded(m *wire.PromptResult) bool {
	c.mu.Lock()
	first := c.prompts.end(m.PromptID)
	if first {
		c.used = time.Now()
	}
	c.mu.Unlock()
	if !first {
		c.g.countRefused(refusedUnexpected)
		return false
	}
	if c.agent.promptEnded(m) {
		c.note(func(row *store.SandboxInstance) { row.ACPSessionID = m.SessionID })
	}
	return true
}

// exited notes the end of the agent's process. Its token stays valid while a prompt is open: the proxy may start the
// agent again for a prompt that is on its way, with the same environment.
func (c *channel) exited(status string) {
	c.mu.Lock()
	busy := c.prompts.any() && status != "closed"
	c.agent.exited()
	c.prompts.clear()
	c.mu.Unlock()
	c.note(func(row *store.SandboxInstance) { row.Status = status })
	if !busy {
		c.revokeToken()
	}
}

// observeSignal learns from a proxy's own signal. A request that a cancelled prompt makes is answered at once.
func (c *channel) observeSignal(m *wire.ProxyUpdate, signal wire.Signal) bool {
	switch s := signal.(type) {
	case nil:
		c.g.countRefused(refusedMalformed) // the chat shows it as it is
	case *wire.InstanceStatus:
		c.noteStatus(s)
	case *wire.TransportConnected:
		c.agent.connected()
		c.note(func(row *store.SandboxInstance) { row.Transport = m.Content })
	case *wire.TransportDisconnected:
		c.note(func(row *store.SandboxInstance) { row.Transport = m.Content })
	case *wire.InitResult:
		c.note(func(row *store.SandboxInstance) { row.Init = m.Content })
	// A request without options cannot be answered at all; the agent would wait for ever.
	case *wire.PermissionRequest:
		nothing := len(wire.ReadPermission(m.Content).Options) == 0
		return !c.decline(s.PromptID, requestKey{Session: s.SessionID, Request: s.RequestID}, nothing)
	case *wire.ElicitationRequest:
		return !c.decline(s.PromptID, requestKey{Session: s.SessionID, Request: s.RequestID, Input: true}, false)
	}
	return true
}

// seenEvery bounds the age of the saved time at which an instance was last seen: every prompt changes it, and it is not
// worth a write each.
const seenEvery = time.Minute

// Providers report often. Only what differs is written, and the time at most once a minute.
func (c *channel) noteStatus(s *wire.InstanceStatus) {
	seen := timeOf(&s.LastSeenAt)
	if seen.IsZero() {
		seen = time.Now()
	}
	stale := c.agent.staleSince(seen)
	c.note(func(row *store.SandboxInstance) {
		row.Status, row.Provider, row.Runtime, row.LastError = s.Status, s.Provider, stringOf(s.Runtime), stringOf(s.LastError)
		row.LastSeen = seen // but its name stays what it was opened with
	})
	if stale {
		c.g.keeper.instance(c)
	}
}

// decline answers "cancelled" to a request of a prompt that was cancelled, or with nothing to choose; the latter is shown
// in the chat. It reports whether the frame means nothing more.
func (c *channel) decline(prompt *string, key requestKey, nothing bool) bool {
	c.inSession(key.Session)
	dropped := prompt != nil && c.prompts.isDropped(*prompt)
	if !dropped && nothing {
		c.g.countRefused(refusedMalformed)
	}
	if dropped || nothing {
		c.p.send(c.id, key.cancelled(c.id))
	}
	return dropped
}

func stringOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
