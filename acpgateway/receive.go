package acpgateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// receive takes one message. An error ends the link; what is wrong with a message alone is
// counted, logged once, and forgotten.
//
// A frame that cannot be read but has a number takes part in the order all the same (with no content): otherwise its
// number would be a gap for ever and the proxy would send it again after each link.
func (l *link) receive(ctx context.Context, data []byte) error {
	head, f, err := wire.Decode(data)
	p := l.proxy()
	if err != nil {
		l.refuse(refusedMalformed, head.Type, err)
		f = nil
	}
	if unknown, ok := f.(*wire.Unknown); ok {
		l.refuse(refusedUnknown, unknown.Name, nil)
		f = nil
	}
	if f != nil && isOurs(f) {
		l.refuse(refusedUnexpected, head.Type, nil)
		f = nil
	}
	if info, ok := f.(*wire.RegisterAgent); ok {
		return l.register(ctx, info.Agent)
	}
	if p == nil {
		if f != nil {
			l.refuse(refusedUnregistered, head.Type, nil)
		}
		return nil
	}
	if m, ok := f.(*wire.Ack); ok { // its number is one of ours
		p.acked(l, m)
		return nil
	}
	if len(head.RunID) > runBytes {
		l.refuse(refusedMalformed, head.Type, nil)
		return nil // not even its number is remembered
	}
	if f == nil && head.Seq == 0 {
		return nil
	}
	if count := l.g.cfg.Meter.Frame; count != nil && f != nil {
		count(f.Type())
	}
	in := newFrame(f, head.RunID)
	in.seq, in.size = head.Seq, len(data)
	return p.receive(ctx, l, in)
}

// isOurs reports whether a message is one that only this server sends.
func isOurs(f wire.Frame) bool {
	switch f.(type) {
	case *wire.RegisterAck, *wire.Open, *wire.Close, *wire.PromptSend, *wire.SessionCancel, *wire.SessionSetMode, *wire.SessionSetModel,
		*wire.SessionSetConfigOption, *wire.SessionPermission, *wire.SessionElicitation, *wire.SandboxControl:
		return true
	}
	return false
}

// odd notes a message that is not as it should be.
func (l *link) refuse(reason, kind string, err error) {
	l.g.countRefused(reason)
	if l.g.once.first(l.who.ProxyID + " " + reason + " " + kind) {
		l.g.log.Warn("a proxy's message was not taken; more like it are only counted", slog.String("proxy", l.who.ProxyID),
			slog.String("reason", reason), slog.String("type", kind), slog.Any("error", err))
	}
}

// turnAway refuses a proxy's registration.
func (l *link) turnAway(why string) error {
	bye := &closeReason{closeRefused, why}
	l.refuse(refusedUnregistered, "register_agent", bye)
	return bye
}

func (l *link) register(ctx context.Context, info wire.ProxyInfo) error {
	if info.ID != l.who.ProxyID {
		return l.turnAway("the token is for another proxy")
	}
	// The Directory is shared with HTTP agents; a proxy must not take over the id of one.
	if l.g.fleet.agent(agentOf(l.who)) == nil {
		return l.turnAway("an agent of that name is already here")
	}
	if free, err := l.g.cfg.Registry.ClaimAgent(ctx, agentOf(l.who)); err != nil || !free {
		if err != nil {
			return err
		}
		return l.turnAway("an agent of that name is registered")
	}
	for {
		p := l.g.fleet.proxy(info.ID)
		rival := p.rival(l, info)
		if rival != nil && rival.isAlive(ctx) {
			bye := &closeReason{closeOccupied, "another proxy is connected under this id; give this one an id of its own"}
			l.refuse(refusedOccupied, "register_agent", bye)
			return bye
		}
		if p.linked(l, rival, info) {
			break
		}
		// The proxy was removed in between, or another link was faster: look again.
	}
	l.g.fleet.agent(agentOf(l.who)) // the removal may have taken the Agent along
	return nil
}

// errGap is a sender whose numbers leave a gap that does not close.
var errGap = errors.New("acpgateway: numbered frames are missing")

// receive puts a frame in order and hands on what is due.
//
// The Inbox gives frames out in the order of their numbers and holds a bounded window of later ones. A number that was
// there already is a frame the proxy sent again because its ack was lost: it is dropped here, which is what makes each
// frame count once.
func (p *proxy) receive(ctx context.Context, l *link, f frame) error {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	p.mu.Lock()
	current := p.link == l
	p.mu.Unlock()
	// A newer link has taken over. What the proxy sent on this one and is not acknowledged comes again there.
	if !current {
		return nil
	}
	if f.seq == 0 || p.in == nil {
		p.route(ctx, l, f)
		return nil
	}
	if f.run != "" && !p.in.Has(f.run) {
		if _, foreign := p.channel(ctx, f.run); foreign {
			// Its frames are not put in order: a proxy may invent as many runs as it likes.
			p.dismiss(l, f)
			return nil
		}
	}
	last := p.in.Last(f.run)
	// A window that is full of later numbers means that one is lost for good: the link ends, and the next begins with
	// what is kept.
	due, ok := p.in.Take(nil, f.run, f.seq, f)
	if !ok {
		return errGap
	}
	if len(due) == 0 && f.seq <= last {
		p.ackAgain(f)
	}
	for _, f := range due {
		p.route(ctx, l, f)
	}
	return nil
}

// acked forgets frames of ours that have arrived.
func (p *proxy) acked(l *link, m *wire.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.out.Ack(m.RunID, m.Seq)
	}
}

// ackAgain answers a frame that came before: what is kept is acknowledged once more.
// Without it a proxy whose ack was lost would keep the frame, and all behind it, until the run ends.
func (p *proxy) ackAgain(f frame) {
	if c := p.g.fleet.known(f.run); c != nil {
		if acked := c.queue.ackedUpTo(); f.seq <= acked { // its ack was lost with a link
			p.ack(f.run, p.offered().Epoch, acked)
		}
	} else {
		p.ack(f.run, p.offered().Epoch, f.seq)
	}
}

// route gives a frame to whom it concerns. inMu is held.
// The controls' results go to who waits for them and then to the channel too, which counts their numbers.
func (p *proxy) route(ctx context.Context, l *link, f frame) {
	switch m := f.Frame.(type) {
	case *wire.Heartbeat:
		if m.AgentID != p.id {
			l.refuse(refusedUnexpected, m.Type(), nil)
			return
		}
		p.mu.Lock()
		p.row.LastSeen = time.Now()
		p.mu.Unlock()
		p.g.keeper.proxy(p)
		return
	case *wire.SandboxInventory, *wire.WorkspaceInventory:
		p.listed(m)
		return
	case *wire.SessionControlResult:
		p.g.unexpected(p.asks.answered(m.ControlID, m))
	case *wire.SandboxControlResult:
		if m.RequestID != nil {
			p.g.unexpected(p.asks.answered(*m.RequestID, m))
		}
	case nil:
	default:
		if f.run == "" {
			l.refuse(refusedMalformed, m.Type(), nil)
		}
	}
	if f.run == "" {
		p.ack("", p.offered().Epoch, f.seq)
		return
	}
	if c, _ := p.channel(ctx, f.run); c != nil {
		c.push(ctx, f)
	} else {
		p.dismiss(l, f)
	}
}

// dismiss drops a frame of a run that is not the proxy's. The last frames of a run that was deleted are expected.
// It is acknowledged: a proxy keeps what is not, and this will never be committed.
func (p *proxy) dismiss(l *link, f frame) {
	if !p.deleted.has(f.run) {
		l.refuse(refusedForeign, typeOf(f), nil)
	}
	p.ack(f.run, p.offered().Epoch, f.seq)
}

func typeOf(f frame) string {
	if f.Frame == nil {
		return ""
	}
	return f.Frame.Type()
}

// maxForeign bounds what is remembered of runs that are not the proxy's.
const maxForeign = 4096

// channel finds the channel of a run, if the run is this proxy's. foreign is set for a run of another proxy, or of none; a
// run that could not be looked up may be either.
// What is not known is looked up in the rows once: frames of a Session that rested before a restart may be the first
// to name it. A failed look-up is not remembered, since the store may be back with the next frame.
func (p *proxy) channel(ctx context.Context, run string) (c *channel, foreign bool) {
	if c := p.g.fleet.known(run); c != nil {
		if c.p != p {
			return nil, true
		}
		return c, false
	}
	if p.foreign[run] {
		return nil, true
	}
	row, err := p.g.cfg.Registry.Instance(ctx, run)
	switch {
	case err == nil && row.ProxyID == p.id:
		return p.g.fleet.bind(row, p), false
	case err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil:
		p.log().Error("a run could not be looked up", slog.String("run_id", run), slog.Any("error", err))
		return nil, false
	}
	if len(p.foreign) == maxForeign {
		clear(p.foreign)
	}
	p.foreign[run] = true
	return nil, true
}

// forget expects the last frames of a run that is deleted: they are dropped without being counted as refused.
func (p *proxy) forget(run string) {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	p.deleted.add(run)
}

// listed keeps what a proxy lists of its instances or workspaces.
// The list also changes rows of Sessions that are not in memory, which the keeper does.
func (p *proxy) listed(f wire.Frame) {
	boxes, _ := f.(*wire.SandboxInventory)
	p.mu.Lock()
	p.row.LastSeen = time.Now()
	switch m := f.(type) {
	case *wire.SandboxInventory:
		p.row.Sandboxes = mustJSON(m)
	case *wire.WorkspaceInventory:
		p.row.Workspaces, p.folders = mustJSON(m), foldersOf(*m)
	}
	p.mu.Unlock()
	p.g.keeper.proxy(p)
	if boxes != nil {
		p.g.keeper.list(p, boxes)
	}
	publishInventory(p.g.cfg.Hints, p.id, f)
}

// validJSON is JSON to be kept, or nothing.
func validJSON(raw json.RawMessage) []byte {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}
