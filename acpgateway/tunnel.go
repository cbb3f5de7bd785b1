package acpgateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
	"aqueduct/bridge/fromacp"
	"aqueduct/store"
)

// tunnel is a Session's way to an agent, through the proxy it is bound to. Frames wait in it
// for the Turn that reads them.
type tunnel struct {
	g     *Gateway
	id    string // the instance's; run_id on the wire
	owner string // the Session's: the id, but for an agent beside the thread's own
	p     *proxy
	tr    *fromacp.Translator // of the Turn that reads, one at a time

	records recorder

	mu    sync.Mutex
	row   store.SandboxInstance
	queue []frame
	bytes int
	full  bool          // more came than is held; the Turn fails
	room  chan struct{} // capacity 1: the queue was taken
	bell  chan struct{} // capacity 1: for the Turn
	turn  *turn         // who reads; nil between Turns

	seated  bool                    // a Turn is about to be attached
	closing time.Time               // its agent was closed and may still be there
	opened  bool                    // its agent runs and is initialized, as far as is known
	caps    *acp.PromptCapabilities // nil: nobody has said
	modes   []string                // that its agent offers; nil: not known
	moved   bool                    // its mode has changed, and no Turn was told
	left    []string                // the agent's sessions that a branch has left; the newest sessionsLeft
	primed  bool                    // its agent has ended a prompt that the context was sent with
	life    int                     // of the agent's processes, counted
	token   string                  // that the agent's process has; "" when this process has made none
	session string                  // the agent's own id of the conversation, as last heard
	models  string                  // id of the config option that chooses the model
	told    bridge.Settings

	prompts map[string]*prompt // that the agent has and has not ended
	turns   recent             // the last prompts it was given
	results recent             // those of them that have ended
	dropped recent             // those of them that nobody wants to hear of any more
	asks    map[string]*ask    // open, by their key

	came   int64 // frames, counted here
	kept   int64 // the proxy's number of the newest frame that is kept
	read   int64 // and of the newest that was taken out of the queue
	used   time.Time
	linkAt time.Time // when the link last came back
	hints  []hint    // of frames that are not kept yet
}

func newTunnel(g *Gateway, p *proxy, row store.SandboxInstance) *tunnel {
	t := &tunnel{
		g: g, id: row.SessionID, owner: cmp.Or(row.OfSession, row.SessionID), p: p, row: row, session: row.ACPSessionID, used: time.Now(),
		linkAt: time.Now(), room: make(chan struct{}, 1), bell: make(chan struct{}, 1),
		prompts: make(map[string]*prompt), asks: make(map[string]*ask),
	}
	t.records.t = t
	return t
}

// push takes a frame in, in order. It blocks only while the store stalls and the proxy is one
// that nothing else would stop.
func (t *tunnel) push(ctx context.Context, f frame) {
	if !t.observe(ctx, f) {
		f.Frame = nil
	}
	t.waitForRoom(ctx, f.size)
	t.mu.Lock()
	if t.over(f.size) {
		t.full = true
		t.mu.Unlock()
		t.g.refuse(refusedTooMuch)
		t.ring()
		return
	}
	t.came++
	f.at = t.came
	t.hint(f)
	t.queue = append(t.queue, f)
	t.bytes += f.size
	unread := t.turn == nil && (len(t.queue) > silentFrames || t.speaks(f))
	t.mu.Unlock()
	if unread {
		t.g.caller.call(t.id)
	}
	t.ring()
}

func (t *tunnel) over(size int) bool {
	return len(t.queue) >= queueFrames || len(t.queue) > 0 && t.bytes+size > queueBytes
}

func (t *tunnel) waitForRoom(ctx context.Context, size int) {
	for {
		t.mu.Lock()
		over := t.over(size)
		t.mu.Unlock()
		if !over || !t.g.cfg.Stalled() {
			return
		}
		select {
		case <-t.room:
		case <-time.After(time.Second): // the store may be well again, and the queue as full
		case <-ctx.Done():
			return
		}
	}
}

// take hands the Turn all that waits.
func (t *tunnel) take() (frames []frame, full bool) {
	t.mu.Lock()
	frames, full = t.queue, t.full
	t.queue, t.bytes, t.full = nil, 0, false
	for _, f := range frames {
		t.read = f.after(t.read)
	}
	t.mu.Unlock()
	select {
	case t.room <- struct{}{}:
	default:
	}
	return frames, full
}

// speaks says whether a frame is worth a Turn of its own. State can wait for the next.
func (t *tunnel) speaks(f frame) bool {
	switch m := f.Frame.(type) {
	case *acp.ACPUpdate:
		if m.Replay || m.PromptID != nil && t.dropped.has(*m.PromptID) {
			return false
		}
		u := acp.ReadUpdate(m.Update)
		switch u.Variant {
		case acp.AgentMessageChunk, acp.AgentThoughtChunk:
			return u.Content.Type != acp.BlockText || u.Content.Text != ""
		case acp.ToolCallNew:
			return true
		case acp.CurrentMode: // what a page shows must not wait for the next prompt
			moved := t.moved
			t.moved = false
			return moved
		}
	case *acp.ProxyUpdate:
		s, err := acp.DecodeSignal(m.Content)
		return err == nil && acp.Asks(s)
	}
	return false
}

func (t *tunnel) ring() {
	select {
	case t.bell <- struct{}{}:
	default:
	}
}

// attach makes a Turn the reader, and tells which frames came before it.
func (t *tunnel) attach(r *turn) (came int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn, t.used, t.seated = r, time.Now(), false
	return t.came
}

// detach ends its reading. A prompt it leaves unfinished is not cancelled at once: the Turn
// may be taken up again.
func (t *tunnel) detach(r *turn) {
	follow := r.following()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != r {
		return
	}
	t.turn, t.used = nil, time.Now()
	if p := t.prompts[follow]; p != nil && p.fate == wanted {
		p.become(orphaned)
	}
}

// linkDown and linkUp tell of the proxy's link. A proxy that counts loses nothing; what
// another said meanwhile is lost, and a proxy that was restarted has lost its agents.
func (t *tunnel) linkDown() { t.ring() }

func (t *tunnel) linkUp(again, counts bool) {
	t.mu.Lock()
	t.linkAt = time.Now()
	waits := len(t.prompts) > 0 || t.turn != nil
	t.mu.Unlock()
	ctx, ok := t.g.running()
	if !ok {
		return
	}
	defer t.g.wg.Done()
	switch {
	case again:
		t.push(ctx, frame{Frame: &restarted{}, run: t.id})
	case !counts && waits:
		t.push(ctx, frame{Frame: &gap{}, run: t.id})
	}
	t.ring()
}

// restarted and gap stand in the queue where a proxy was restarted, and where the link of one
// that does not count was cut.
type (
	restarted struct{}
	gap       struct{}
)

// Type implements acp.Frame.
func (*restarted) Type() string { return "restarted" }

// Type implements acp.Frame.
func (*gap) Type() string { return "gap" }

// again answers a frame that has come before.
func (t *tunnel) again(seq int64) {
	t.mu.Lock()
	kept := t.kept
	t.mu.Unlock()
	if seq <= kept {
		t.p.ack(t.id, t.p.epoch(), kept)
	}
}

// note changes what is known of the instance, and keeps it when it is something else.
func (t *tunnel) note(change func(*store.SandboxInstance)) {
	t.mu.Lock()
	before := t.row
	change(&t.row)
	changed := !same(before, t.row)
	t.mu.Unlock()
	if changed {
		t.g.keeper.instance(t)
	}
}

// same leaves out when the instance was last seen: it comes with every prompt.
func same(a, b store.SandboxInstance) bool {
	return a.Status == b.Status && a.ACPSessionID == b.ACPSessionID && a.LastError == b.LastError && a.Provider == b.Provider &&
		a.Runtime == b.Runtime && string(a.Transport) == string(b.Transport) && string(a.Init) == string(b.Init) && a.InstanceName == b.InstanceName && sameToken(a, b)
}

// sweep sees to what only time decides.
func (t *tunnel) sweep(now time.Time) {
	t.discard(now)
	for _, id := range t.abandoned(now) {
		t.abandon(id)
	}
	idle := t.idle()
	t.mu.Lock()
	overdue := !t.closing.IsZero() && now.Sub(t.closing) > closedWait
	if overdue {
		t.closing = time.Time{}
	}
	var cancel []string
	closing := false
	for id, p := range t.prompts {
		switch {
		case p.fate == orphaned && now.Sub(p.since) > orphanWait:
			cancel = append(cancel, id)
		case p.fate == unwanted && now.Sub(p.since) > cancelWait:
			closing = true
		}
	}
	rests := t.turn == nil && len(t.prompts) == 0 && !t.seated && now.Sub(t.used) > idle
	closing = closing || rests && t.opened
	gone := rests && !closing && len(t.queue) == 0
	t.mu.Unlock()
	if overdue {
		t.ring()
	}
	for _, id := range cancel {
		t.cancel(id)
	}
	if closing {
		t.close()
	}
	if gone {
		t.g.drop(t)
	}
}

// idle is how long its agent may rest: as long as its settings keep it alive.
func (t *tunnel) idle() time.Duration {
	if keep := t.config().Keepalive; keep > 0 {
		return time.Duration(t.config().keepalive()) * time.Second
	}
	return t.g.cfg.Limits.Idle
}

// close ends the Session's agent; the next prompt gets a new one.
func (t *tunnel) close() {
	t.p.send(t.id, &acp.Close{RunID: t.id})
	t.mu.Lock()
	if t.opened || len(t.prompts) > 0 {
		t.closing = time.Now()
	}
	t.ended()
	t.mu.Unlock()
	t.note(func(row *store.SandboxInstance) { row.Status = "closed" })
	t.revokeToken()
	t.records.flush()
	t.ring()
}

// ended notes that there is no agent any more, and so none of its prompts. The lock is held.
func (t *tunnel) ended() {
	t.opened, t.primed = false, false
	clear(t.prompts)
	t.life++
}
