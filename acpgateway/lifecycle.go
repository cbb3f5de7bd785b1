package acpgateway

import (
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// How a channel's prompts and agent are ended: by a cancel, by a close, or by time alone.

// sweep ends what only time decides: stale frames, prompts without a Turn, agents that rest, and at last the channel.
// It is called once a second for each channel by the Gateway's one sweep.
func (c *channel) sweep(now time.Time) {
	c.discardStale(now)
	c.dropLost(now)
	for _, id := range c.prompts.in(detached, now.Add(-orphanWait)) {
		c.cancel(id)
	}
	if c.agent.closeOverdue(now) {
		c.bell.Ring()
	}
	idle := c.config().idle(c.g.cfg.Limits.Idle)
	c.mu.Lock()
	// All three under the lock: a Turn that is about to attach has reserved the slot, and one that reads has taken it
	// over in one step.
	rests := !c.reserved && now.Sub(c.used) > idle && c.queue.turn() == nil && !c.prompts.any()
	c.mu.Unlock()
	switch {
	case rests && c.agent.isRunning(), len(c.prompts.in(cancelled, now.Add(-cancelWait))) > 0:
		c.close()
	// A channel that still holds frames stays, however long it has rested: dropping it would lose them.
	case rests && c.queue.isEmpty():
		c.g.fleet.drop(c)
	}
}

// discardStale drops frames that mean nothing for a chat any more, when the agent has ended and no Turn reads; their
// proxy may forget them then. A Turn from before a restart may still resume with them, and is given time for that.
func (c *channel) discardStale(now time.Time) {
	c.mu.Lock()
	if c.agent.isRunning() || c.prompts.any() || now.Sub(c.used) <= orphanWait {
		c.mu.Unlock()
		return
	}
	n, seq, hints := c.queue.discardStale()
	c.mu.Unlock()
	if n > 0 {
		c.p.ack(c.id, c.p.offered().Epoch, seq)
		c.hints.publish(hints)
	}
}

// dropLost ends the abandoned prompts whose agent can no longer be at work on them: the link is back, and no update has
// named the prompt for as long as a cut may last, or the proxy does not list it. The result was lost with the link, and a
// proxy that does not number its frames never repeats it. Without this a prompt would keep its slot until the server
// restarts.
//
// If the agent is at work all the same, session_cancel stops it; but not while another prompt is under way in the same
// session, which that would stop instead.
func (c *channel) dropLost(now time.Time) {
	online, _ := c.p.status()
	if !online || c.permissions.any() {
		return
	}
	patience, counts := c.g.cfg.Limits.Grace, c.p.offered().Seq
	if counts {
		patience = adoptWait
	}
	_, linked := c.times()
	for _, id := range c.prompts.unnamedSince(linked, now.Add(-patience)) {
		if counts && c.p.has(c.id, id) {
			continue // its result will come
		}
		c.mu.Lock()
		c.used = time.Now()
		alone := c.prompts.removeLost(id)
		c.mu.Unlock()
		if alone {
			c.p.send(c.id, cancelFrame(c.id, c.agent.sessionID()))
		}
	}
}

// cancelPrefix begins the ids of controls whose results are not waited for.
const cancelPrefix = "cancel-"

// cancelFrame cancels whatever is under way in a session.
func cancelFrame(run, session string) wire.Frame {
	return &wire.SessionCancel{RunID: run, ControlID: cancelPrefix + uuid.NewString(), SessionID: session}
}

// cancel stops a prompt: session_cancel first, then the answer "cancelled" to every open request. In the other order an
// agent may take the answer and continue its turn. If the prompt does not end then, sweep closes the agent.
//
// It is the same for a user's cancel, a Turn that fails, and a prompt that nothing resumed.
func (c *channel) cancel(id string) {
	if c.prompts.cancel(id) {
		c.p.send(c.id, cancelFrame(c.id, c.agent.sessionID()))
		c.declineAll()
	}
}

// declineAll answers every open request with "cancelled".
func (c *channel) declineAll() {
	for _, req := range c.permissions.withdrawAll() {
		c.p.send(c.id, req.key.cancelled(c.id))
	}
}

// stopping reports whether the agent still has to end a cancelled prompt, or its process. The next prompt would wait
// behind it, and be lost if the agent is closed over it. A close sets closing before it clears the prompts, so looking
// at them in the opposite order misses neither.
func (c *channel) stopping() bool {
	return len(c.prompts.in(cancelled, time.Time{})) > 0 || c.agent.isClosing()
}

// close ends the Session's agent; the next prompt gets a new one.
// closing is set before the prompts are cleared; stopping looks at them the other way round, see there.
func (c *channel) close() {
	c.p.send(c.id, &wire.Close{RunID: c.id})
	c.mu.Lock()
	c.agent.close(c.prompts.any())
	c.prompts.clear()
	c.mu.Unlock()
	c.note(func(row *store.SandboxInstance) { row.Status = "closed" })
	c.revokeToken()
	c.records.flush()
	c.bell.Ring()
}

// revokeToken makes the tokens of an instance that has ended worthless.
// The process that had them may still run for a moment; its calls are refused from here on.
func (c *channel) revokeToken() {
	c.agent.dropToken()
	c.note(func(row *store.SandboxInstance) { row.TokenHash = nil })
}
