package acpgateway

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"aqueduct/acpgateway/seqlink"
	"aqueduct/acpgateway/wire"
	"aqueduct/store"
)

// proxy is one acp-proxy, connected or not.
//
// It outlives its links: a proxy that links again within the grace finds its channels, its numbers and the frames that
// it has not acknowledged. It ends when an operator removes it.
type proxy struct {
	g     *Gateway
	id    string
	out   *seqlink.Outbox // frames of runs, on their way down
	first chan struct{}   // closed when it has linked
	once  sync.Once       // of closing it

	// Two locks, because they are held for different times. inMu is held while frames are put in order and handed to
	// the channels, which may block on a stalled store; mu only for reading and changing a field, so that a Turn that
	// sends never waits for frames that come.
	// inMu keeps frames in order from the link to the channels, also while one link takes
	// over from another.
	inMu    sync.Mutex
	in      *seqlink.Inbox[frame] // nil: it does not count
	foreign map[string]bool       // runs that are not its own, so that each is looked up once
	deleted recent                // the last runs that were its own

	asks asks // controls under way

	mu           sync.Mutex
	row          store.Proxy
	folder       string                  // where all its agents work
	folders      map[workspaceKey]string // where each instance works, as listed
	link         *link                   // nil: offline
	retired      bool                    // it was removed, or has moved; the next proxy under its id is another
	moved        bool                    // it is linked to another replica
	expected     time.Time               // until when prompts wait for its link
	lost         time.Time
	offers       wire.Offers
	installation string
	before       string                  // epoch of the last start that an earlier process of ours knew; "" when none did
	runs         map[string]wire.RunInfo // that it listed when it registered
}

func newProxy(g *Gateway, id string) *proxy {
	return &proxy{
		g: g, id: id, out: seqlink.NewOutbox(), first: make(chan struct{}), foreign: make(map[string]bool),
		row: store.Proxy{ID: id, AgentID: id, Status: store.ProxyOffline},
	}
}

// rival is the link of another proxy under the same id, as far as can be known; nil when there is none. A proxy that names
// neither its installation nor its start may be the one that was here: whether its old link answers will show.
// Two machines that were cloned have the same id and token. Letting the newer one win would make them end each other's
// links for ever, so a rival that answers stays and the newcomer is refused with its reason.
func (p *proxy) rival(l *link, info wire.ProxyInfo) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rivalOf(p, l, info)
}

// rivalOf is rival with the proxy's lock held.
func rivalOf(p *proxy, l *link, info wire.ProxyInfo) *link {
	epoch := info.Offers().Epoch
	same := info.Installation != "" && info.Installation == p.installation || epoch != "" && epoch == p.offers.Epoch
	if same || p.link == l {
		return nil
	}
	return p.link
}

// linked makes l the proxy's link. A newer connection wins over one of the same installation, and over a rival that does
// not answer: it may hang half open for long. False when the proxy was removed meanwhile, or a rival has come.
//
// It holds both locks, so that no frame of the old link is put in order after the numbers were begun anew for this
// one, and no frame of ours goes to the new link before its register_ack. The old link is ended after the locks are
// released: its own end (unlinked) takes them again.
func (p *proxy) linked(l, rival *link, info wire.ProxyInfo) bool {
	offers, who := info.Offers(), l.who
	p.inMu.Lock()
	p.mu.Lock()
	if now := rivalOf(p, l, info); p.retired || now != nil && now != rival {
		p.mu.Unlock()
		p.inMu.Unlock()
		return false
	}
	old, before := p.link, p.offers
	// Another epoch is another process of the proxy: frames kept for the old one mean nothing to it, and its agents
	// are gone.
	restarted := before.Epoch != "" && before.Epoch != offers.Epoch
	if restarted {
		p.out.Forget()
	}
	// The proxy may have been restarted while this server was down too; then only the row knows the epoch before.
	last := cmp.Or(before.Epoch, p.before)
	renewed := last != "" && last != offers.Epoch // its agents ended with its last start
	switch {                                      // the numbers of what comes go on within one epoch of the sender
	case !offers.Seq:
		p.in = nil
	case p.in == nil || before.Epoch != offers.Epoch:
		p.in = seqlink.NewInbox[frame](info.Behind)
	}
	p.link, p.offers, p.installation, p.lost = l, offers, info.Installation, time.Time{}
	p.runs = make(map[string]wire.RunInfo, len(info.Runs))
	for _, r := range info.Runs {
		p.runs[r.RunID] = r
	}
	p.row = registered(p.row, who, info)
	p.folder = folderOf(p.row.Capabilities)
	l.mu.Lock()
	l.p = p
	l.mu.Unlock()
	l.sendUrgent(&wire.RegisterAck{Success: true, Offers: wire.Offers{Seq: offers.Seq, PermissionCancelled: true, Elicitation: true, Epoch: p.g.epoch}})
	p.out.Attach(offers.Seq)
	p.once.Do(func() { close(p.first) })
	p.mu.Unlock()
	p.inMu.Unlock()
	if old != nil && old != l {
		old.end(&closeReason{closeReplaced, "replaced by a newer connection"})
	}
	p.log().Info("proxy linked", slog.String("agent", p.row.AgentID), slog.Bool("counts", offers.Seq), slog.Bool("restarted", restarted), slog.Time("token_ends", who.Until))
	if renewed {
		p.g.keeper.revoke(p, time.Now())
	}
	p.changed(func(c *channel) {
		if renewed {
			c.revokeToken()
		}
		c.linkUp(restarted, offers.Seq)
	})
	l.bell.Ring()
	return true
}

// registered is the row of a proxy that has introduced itself.
func registered(row store.Proxy, who Identity, info wire.ProxyInfo) store.Proxy {
	now := time.Now()
	row.Name, row.AgentID = info.Name, agentOf(who)
	if who.Name != "" {
		row.Name = who.Name
	}
	row.Capabilities, row.MaxConcurrent = validJSON(info.Capabilities), max(0, info.MaxConcurrent)
	if row.RegisteredAt.IsZero() {
		row.RegisteredAt = now
	}
	row.Status, row.ConnectedAt, row.LastSeen, row.LastError = store.ProxyOnline, now, now, ""
	row.TokenEnds = who.Until
	return row
}

// agentOf is the Agent that a proxy serves.
func agentOf(who Identity) string {
	if who.AgentID != "" {
		return who.AgentID
	}
	return who.ProxyID
}

// unlinked notes the end of a link, if it is still the proxy's.
//
// The link may not be the proxy's any more: a newer one has taken over, and then its end means nothing.
func (p *proxy) unlinked(l *link, why error) {
	p.mu.Lock()
	if p.link != l {
		p.mu.Unlock()
		return
	}
	p.link, p.lost = nil, time.Now()
	p.out.Detach()
	p.row.Status, p.row.LastSeen = store.ProxyOffline, p.lost
	if why != nil {
		p.row.LastError = why.Error()
	}
	p.mu.Unlock()
	p.asks.end()
	p.log().Warn("proxy gone", slog.Any("error", why))
	p.changed(func(c *channel) { c.bell.Ring() })
}

// changed notifies the proxy's channels, the store and the metrics.
// It is called without any lock: channels, keeper and metrics have their own.
func (p *proxy) changed(tell func(*channel)) {
	for _, c := range p.g.fleet.allChannels() {
		if c.p == p {
			tell(c)
		}
	}
	p.g.keeper.proxy(p)
	if f := p.g.cfg.Meter.Linked; f != nil {
		n := 0
		for _, other := range p.g.fleet.allProxies() {
			if other.online() {
				n++
			}
		}
		f(n)
	}
}

func (p *proxy) log() *slog.Logger { return p.g.log.With(slog.String("proxy", p.id)) }

func (p *proxy) online() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link != nil
}

// status is whether the proxy is linked, else since when it is not.
func (p *proxy) status() (online bool, lost time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link != nil, p.lost
}

// offered is what the proxy offered when it registered: whether it numbers its frames, and the epoch of its start.
func (p *proxy) offered() wire.Offers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offers
}

// inheritedEpoch is the epoch of the proxy's last start before this process.
func (p *proxy) inheritedEpoch() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// has reports whether the proxy listed a prompt when it registered.
// Only a list made at this registration counts, so it proves that the prompt has survived the cut.
func (p *proxy) has(run, prompt string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.runs[run].PromptIDs {
		if id == prompt {
			return true
		}
	}
	return false
}

// agentID is the Agent that it serves.
func (p *proxy) agentID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.row.AgentID
}

// send queues a frame of a run.
// The outbox keeps the frame until the proxy has acknowledged it, so that nothing is lost with a link; where the proxy
// does not number frames it is sent once.
func (p *proxy) send(run string, f wire.Frame) {
	body, err := wire.Encode(f)
	if err != nil {
		p.log().Error("a message could not be written", slog.String("type", f.Type()), slog.Any("error", err))
		return
	}
	p.out.Put(run, body)
	p.mu.Lock()
	l := p.link
	p.mu.Unlock()
	if l != nil {
		l.bell.Ring()
	}
}

// take is the next frame for l, if l is still the proxy's link.
// The look at the link and the taking are one step: with two, the old link could take a frame off the outbox that the
// new one has to send.
func (p *proxy) take(l *link) (seqlink.Envelope, []byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != l {
		return seqlink.Envelope{}, nil, false
	}
	return p.out.Take()
}

// ack acknowledges a run's committed frames, up to a number of this epoch. Numbers of another start of the proxy would
// acknowledge frames that are not committed.
func (p *proxy) ack(run, epoch string, seq int64) {
	p.mu.Lock()
	l, same := p.link, p.offers.Epoch == epoch && p.offers.Seq
	p.mu.Unlock()
	if l != nil && same && seq > 0 {
		l.ack(run, seq)
	}
}

// ask sends a control and waits for its answer.
//
// Its link is looked at twice, before and after it was listed among those that wait. Between the two the link can end,
// and asks.end would have ended only what was listed by then.
func (p *proxy) ask(ctx context.Context, run, id string, f wire.Frame) (wire.Frame, error) {
	if !p.online() {
		return nil, errOffline
	}
	answer := p.asks.begin(id)
	defer p.asks.forget(id)
	if !p.online() { // its link ended before the control was among those that it ends
		return nil, errOffline
	}
	p.send(run, f)
	select {
	case f, ok := <-answer:
		if !ok {
			return nil, errOffline
		}
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// asks are the controls of one proxy that wait for an answer, by their ids. The link's goroutine answers them; it ends all
// when the link ends.
// A channel of one place each, so that an answer never blocks the link although its asker has given up.
type asks struct {
	mu   sync.Mutex
	byID map[string]chan wire.Frame
}

func (a *asks) begin(id string) <-chan wire.Frame {
	answer := make(chan wire.Frame, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = make(map[string]chan wire.Frame)
	}
	a.byID[id] = answer
	return answer
}

func (a *asks) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byID, id)
}

// answered hands over a control's answer, the first alone. It reports whether the answer was expected: that to a cancel
// comes whether it is waited for or not.
func (a *asks) answered(id string, f wire.Frame) bool {
	a.mu.Lock()
	answer := a.byID[id]
	delete(a.byID, id)
	a.mu.Unlock()
	if answer != nil {
		answer <- f
	}
	return answer != nil || strings.HasPrefix(id, cancelPrefix)
}

// end has all that wait learn that no answer comes.
func (a *asks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answer := range a.byID {
		close(answer)
	}
	a.byID = nil
}
