package acpgateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// channel is a Session's way to an agent, through the proxy it is bound to. It outlives Turns and links: frames wait in
// its queue for the Turn that reads them. The link's goroutine pushes frames, a Turn's takes them, the Gateway's sweep
// ends what only time decides. It ends when sweep drops it, or when its Session or its proxy is removed.
//
// mu is taken before the lock of any part, and the parts' locks are never held together. It makes one step of what
// concerns several parts: that a reserved slot becomes a Turn's (isBusy must never see neither), that a prompt's end and
// the time of last use change together (sweep would close the agent as idle in between), and that an agent ends with
// its prompts.
type channel struct {
	g     *Gateway
	id    string // the instance's; run_id on the wire
	owner string // the Session's: the id, but for an agent beside the thread's own
	p     *proxy
	tr    *translate.Translator // of the Turn that reads; its goroutine alone uses it
	bell  wake.Signal           // for the Turn that reads

	queue       queue
	agent       agentState
	prompts     prompts
	permissions permissions
	records     recorder
	hints       hintFeed

	mu       sync.Mutex
	reserved bool // a slot is kept for a Turn that is about to attach
	used     time.Time
	linkAt   time.Time // when the link last came back
}

func newChannel(g *Gateway, p *proxy, row store.SandboxInstance) *channel {
	owner, now := cmp.Or(row.OfSession, row.SessionID), time.Now()
	c := &channel{
		g: g, id: row.SessionID, owner: owner, p: p, bell: wake.New(), used: now, linkAt: now,
		queue: queue{room: wake.New()}, agent: agentState{row: row, session: row.ACPSessionID},
		prompts: prompts{open: make(map[string]*prompt)}, permissions: permissions{open: make(map[string]*request)},
		hints: hintFeed{hub: g.cfg.Hints, session: owner},
	}
	c.records = recorder{session: owner, keeper: &g.keeper, limits: g.cfg.Limits, secrets: g.cfg.Hash.Filter, queue: &c.queue, prompts: &c.prompts}
	return c
}

// push takes a frame in, in order. It blocks only while the store stalls and the queue is full.
// A frame that is not for a Turn is queued without its content: it has a number, and the numbers are acknowledged in
// order.
func (c *channel) push(ctx context.Context, f frame) {
	if !c.observe(ctx, f) {
		f.Frame, f.update, f.signal = nil, nil, nil
	}
	c.queue.waitForRoom(ctx, f.size, c.g.cfg.Stalled)
	ok, wanted := c.queue.put(f, wantsTurn(f, &c.prompts, &c.agent), &c.hints)
	if !ok {
		c.g.countRefused(refusedTooMuch)
	}
	if wanted {
		c.g.notifier.notify(c.id)
	}
	c.bell.Ring()
}

// wantsTurn reports whether a frame is worth a Turn of its own when none reads. State can wait for the next, except for
// a changed mode, which pages show.
func wantsTurn(f frame, ps *prompts, agent *agentState) bool {
	if m, ok := f.Frame.(*wire.ACPUpdate); ok {
		if m.Replay || m.PromptID != nil && ps.isDropped(*m.PromptID) {
			return false
		}
		switch f.update.Variant {
		case wire.AgentMessageChunk, wire.AgentThoughtChunk:
			return f.update.Content.Type != wire.BlockText || f.update.Content.Text != ""
		case wire.ToolCallNew:
			return true
		case wire.CurrentMode:
			return agent.takeMoved()
		}
	}
	return f.signal != nil && wire.Asks(f.signal)
}

// attach makes a Turn the reader, which takes the slot that was reserved. Frames up to the number it returns came
// before it.
func (c *channel) attach(t *turn) (came int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used, c.reserved = time.Now(), false
	return c.queue.attach(t)
}

// detach ends a Turn's reading. A prompt that it leaves unfinished is not cancelled at once: the Turn may be resumed.
func (c *channel) detach(t *turn) {
	follow := t.course.following()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.detach(t) {
		c.used = time.Now()
		c.prompts.detach(follow)
	}
}

// setReserved keeps a slot until a Turn attaches, or gives up one that no Turn will take.
func (c *channel) setReserved(reserved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved = reserved
}

// isBusy reports whether the channel's slot may not be given to another: a Turn reads or is about to, or the agent has a
// prompt.
func (c *channel) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved || c.queue.turn() != nil || c.prompts.any()
}

// takesSlot reports whether one of the proxy's slots is taken by this channel.
func (c *channel) takesSlot() bool { return c.agent.isRunning() || c.isBusy() }

// times are when the channel was last used and when its link last came back.
func (c *channel) times() (used, linked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.linkAt
}

// linkUp follows a new link of the proxy. A proxy that numbers its frames loses nothing with a link; what another sent
// meanwhile is lost, and a proxy that was restarted has lost its agents.
//
// The marker is pushed as a frame, so that the Turn sees the cut at the place in the stream where it happened.
func (c *channel) linkUp(again, counts bool) {
	c.mu.Lock()
	c.linkAt = time.Now()
	waits := c.prompts.any() || c.queue.turn() != nil
	c.mu.Unlock()
	ctx, ok := c.g.running()
	if !ok {
		return
	}
	defer c.g.wg.Done()
	switch {
	case again:
		c.push(ctx, newFrame(&restarted{}, c.id))
	case !counts && waits:
		c.push(ctx, newFrame(&gap{}, c.id))
	}
	c.bell.Ring()
}

// note changes the instance's row, and has it saved when it is different then.
func (c *channel) note(change func(*store.SandboxInstance)) {
	if c.agent.change(change) {
		c.g.keeper.instance(c)
	}
}

func (c *channel) config() AgentConfig { return c.g.cfg.Agents[c.p.agentID()] }
