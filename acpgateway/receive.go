package acpgateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// receive takes one message. An error ends the link; what is wrong with a message alone is
// counted, logged once, and forgotten.
func (l *link) receive(ctx context.Context, data []byte) error {
	head, f, err := acp.Decode(data)
	p := l.proxy()
	if err != nil {
		l.odd(refusedMalformed, head.Type, err)
		f = nil
	}
	if unknown, ok := f.(*acp.Unknown); ok {
		l.odd(refusedUnknown, unknown.Name, nil)
		f = nil
	}
	if f != nil && isOurs(f) {
		l.odd(refusedUnexpected, head.Type, nil)
		f = nil
	}
	if info, ok := f.(*acp.RegisterAgent); ok {
		return l.register(ctx, info.Agent)
	}
	if p == nil {
		if f != nil {
			l.odd(refusedUnregistered, head.Type, nil)
		}
		return nil
	}
	if m, ok := f.(*acp.Ack); ok { // its number is one of ours
		p.acked(l, m)
		return nil
	}
	if len(head.RunID) > runBytes {
		l.odd(refusedMalformed, head.Type, nil)
		return nil // not even its number is remembered
	}
	if f == nil && head.Seq == 0 {
		return nil
	}
	if count := l.g.cfg.Meter.Frame; count != nil && f != nil {
		count(f.Type())
	}
	return p.receive(ctx, l, frame{Frame: f, run: head.RunID, seq: head.Seq, size: len(data)})
}

// isOurs says whether a message is one that only we send.
func isOurs(f acp.Frame) bool {
	switch f.(type) {
	case *acp.RegisterAck, *acp.Open, *acp.Close, *acp.PromptSend, *acp.SessionCancel, *acp.SessionSetMode, *acp.SessionSetModel,
		*acp.SessionSetConfigOption, *acp.SessionPermission, *acp.SessionElicitation, *acp.SandboxControl:
		return true
	}
	return false
}

// odd notes a message that is not as it should be.
func (l *link) odd(reason, kind string, err error) {
	l.g.refuse(reason)
	if l.g.once.first(l.who.ProxyID + " " + reason + " " + kind) {
		l.g.log.Warn("a proxy's message was not taken; more like it are only counted", slog.String("proxy", l.who.ProxyID),
			slog.String("reason", reason), slog.String("type", kind), slog.Any("error", err))
	}
}

// turnAway refuses a proxy's registration.
func (l *link) turnAway(why string) error {
	bye := &goodbye{closeRefused, why}
	l.odd(refusedUnregistered, "register_agent", bye)
	return bye
}

func (l *link) register(ctx context.Context, info acp.ProxyInfo) error {
	if info.ID != l.who.ProxyID {
		return l.turnAway("the token is for another proxy")
	}
	if l.g.agent(agentOf(l.who)) == nil {
		return l.turnAway("an agent of that name is already here")
	}
	for {
		p := l.g.proxy(info.ID)
		rival := p.rival(l, info)
		if rival != nil && rival.answers(ctx) {
			bye := &goodbye{closeOccupied, "another proxy is connected under this id; give this one an id of its own"}
			l.odd(refusedOccupied, "register_agent", bye)
			return bye
		}
		if p.linked(l, rival, info) {
			break
		}
		// The proxy was removed in between, or another link was faster: look again.
	}
	l.g.agent(agentOf(l.who)) // the removal may have taken the Agent along
	return nil
}

// errGap is a sender whose numbers leave a gap that does not close.
var errGap = errors.New("acpgateway: numbered frames are missing")

// receive puts a frame in order and hands on what is due.
func (p *proxy) receive(ctx context.Context, l *link, f frame) error {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	p.mu.Lock()
	current := p.link == l
	p.mu.Unlock()
	if !current {
		return nil
	}
	if f.seq == 0 || p.in == nil {
		p.route(ctx, l, f)
		return nil
	}
	if f.run != "" && !p.in.Has(f.run) && p.isForeign(ctx, f.run) {
		// Its frames are not put in order: a proxy may invent as many runs as it likes.
		if !p.deleted.has(f.run) {
			l.odd(refusedForeign, typeOf(f), nil)
		}
		p.ack(f.run, p.epoch(), f.seq)
		return nil
	}
	last := p.in.Last(f.run)
	due, ok := p.in.Take(nil, f.run, f.seq, f)
	if !ok {
		return errGap
	}
	if len(due) == 0 && f.seq <= last {
		p.again(f)
	}
	for _, f := range due {
		p.route(ctx, l, f)
	}
	return nil
}

// acked forgets frames of ours that have arrived.
func (p *proxy) acked(l *link, m *acp.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.out.Ack(m.RunID, m.Seq)
	}
}

// again answers a frame that came before: what is kept is acknowledged once more.
func (p *proxy) again(f frame) {
	if t := p.g.known(f.run); t != nil {
		t.again(f.seq)
	} else {
		p.ack(f.run, p.epoch(), f.seq)
	}
}

// route gives a frame to whom it concerns. inMu is held.
func (p *proxy) route(ctx context.Context, l *link, f frame) {
	switch m := f.Frame.(type) {
	case *acp.Heartbeat:
		if m.AgentID != p.id {
			l.odd(refusedUnexpected, m.Type(), nil)
			return
		}
		p.seen()
		p.g.keeper.proxy(p)
		return
	case *acp.SandboxInventory:
		p.listed(m)
		return
	case *acp.WorkspaceInventory:
		p.listedWork(m)
		return
	case *acp.SessionControlResult:
		p.answered(m.ControlID, m)
	case *acp.SandboxControlResult:
		if m.RequestID != nil {
			p.answered(*m.RequestID, m)
		}
	case nil:
	default:
		if f.run == "" {
			l.odd(refusedMalformed, m.Type(), nil)
		}
	}
	if f.run == "" {
		p.ack("", p.epoch(), f.seq)
		return
	}
	t := p.tunnel(ctx, f.run)
	if t == nil {
		if !p.deleted.has(f.run) {
			l.odd(refusedForeign, typeOf(f), nil)
		}
		p.ack(f.run, p.epoch(), f.seq)
		return
	}
	t.push(ctx, f)
}

func typeOf(f frame) string {
	if f.Frame == nil {
		return ""
	}
	return f.Frame.Type()
}

// isForeign says whether a run is another proxy's, or nobody's. One that could not be looked up
// is not known to be.
func (p *proxy) isForeign(ctx context.Context, run string) bool {
	if t := p.g.known(run); t != nil {
		return t.p != p
	}
	return p.tunnel(ctx, run) == nil && p.foreign[run]
}

// maxForeign bounds what is remembered of runs that are not the proxy's.
const maxForeign = 4096

// tunnel finds the tunnel of a run, if the run is this proxy's. A run of another proxy is as
// good as none.
func (p *proxy) tunnel(ctx context.Context, run string) *tunnel {
	if t := p.g.known(run); t != nil {
		if t.p != p {
			return nil
		}
		return t
	}
	if p.foreign[run] {
		return nil
	}
	row, err := p.g.cfg.Registry.Instance(ctx, run)
	switch {
	case err == nil && row.ProxyID == p.id:
		return p.g.bind(row, p)
	case err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil:
		p.log().Error("a run could not be looked up", slog.String("run_id", run), slog.Any("error", err))
		return nil
	}
	if len(p.foreign) == maxForeign {
		clear(p.foreign)
	}
	p.foreign[run] = true
	return nil
}

// forget expects the last frames of a run that is deleted: they are nobody's, and no offence.
func (p *proxy) forget(run string) {
	p.inMu.Lock()
	defer p.inMu.Unlock()
	p.deleted.add(run)
}

// listed keeps a sandbox_inventory, and what it says of our instances.
func (p *proxy) listed(m *acp.SandboxInventory) {
	p.mu.Lock()
	p.row.Sandboxes, p.row.LastSeen = mustJSON(m), time.Now()
	p.mu.Unlock()
	p.g.keeper.proxy(p)
	p.g.keeper.list(p, m)
	p.hintAll(m)
}

func (p *proxy) listedWork(m *acp.WorkspaceInventory) {
	p.mu.Lock()
	p.row.Workspaces, p.row.LastSeen = mustJSON(m), time.Now()
	p.folders = foldersOf(*m)
	p.mu.Unlock()
	p.g.keeper.proxy(p)
	p.hintAll(m)
}

// validJSON is JSON to be kept, or nothing.
func validJSON(raw json.RawMessage) []byte {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}
