package acpgateway

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/acpgateway/counted"
	"aqueduct/store"
)

// proxy is one acp-proxy, connected or not.
type proxy struct {
	g     *Gateway
	id    string
	out   *counted.Outbox // frames of runs, on their way down
	first chan struct{}   // closed when it has linked
	once  sync.Once       // of closing it

	// inMu keeps frames in order from the link to the tunnels, also while one link takes
	// over from another.
	inMu    sync.Mutex
	in      *counted.Inbox[frame] // nil: it does not count
	foreign map[string]bool       // runs that are not its own, so that each is looked up once
	deleted recent                // the last runs that were its own

	mu           sync.Mutex
	row          store.Proxy
	folder       string            // where all its agents work
	folders      map[string]string // where each instance works, as listed
	link         *link             // nil: offline
	retired      bool              // it was removed; whoever registers under its id next is another
	lost         time.Time
	offers       acp.Offers
	installation string
	before       string                    // epoch of the last start that an earlier process of ours knew; "" when none did
	runs         map[string]acp.RunInfo    // that it listed when it registered
	pending      map[string]chan acp.Frame // controls under way, by their id
}

// frame is one message of a run, or of none.
type frame struct {
	acp.Frame        // nil: it could not be read, but has its number
	run       string // what it names
	seq       int64  // 0: not counted
	size      int
	at        int64 // its place among all of its tunnel
}

func newProxy(g *Gateway, id string) *proxy {
	return &proxy{
		g: g, id: id, out: counted.NewOutbox(), first: make(chan struct{}), foreign: make(map[string]bool), pending: make(map[string]chan acp.Frame),
		row: store.Proxy{ID: id, AgentID: id, Status: store.ProxyOffline},
	}
}

// rival is the link of another proxy under the same id, as far as can be told; nil when there is none. A proxy that names
// neither its installation nor its start may be the one that was here: whether its old link answers will show.
func (p *proxy) rival(l *link, info acp.ProxyInfo) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rivalOf(l, info)
}

// rivalOf is rival with the lock held.
func (p *proxy) rivalOf(l *link, info acp.ProxyInfo) *link {
	epoch := info.Offers().Epoch
	same := info.Installation != "" && info.Installation == p.installation || epoch != "" && epoch == p.offers.Epoch
	if same || p.link == l {
		return nil
	}
	return p.link
}

// linked makes l the proxy's link. A newer connection wins over one of the same installation, and over a rival that does
// not answer: it may hang half open for long. False when the proxy was removed meanwhile, or a rival has come.
func (p *proxy) linked(l, rival *link, info acp.ProxyInfo) bool {
	offers, who := info.Offers(), l.who
	p.inMu.Lock()
	p.mu.Lock()
	if now := p.rivalOf(l, info); p.retired || now != nil && now != rival {
		p.mu.Unlock()
		p.inMu.Unlock()
		return false
	}
	old, before := p.link, p.offers
	restarted := before.Epoch != "" && before.Epoch != offers.Epoch
	if restarted {
		p.out.Forget()
	}
	last := cmp.Or(before.Epoch, p.before)
	renewed := last != "" && last != offers.Epoch // its agents ended with its last start
	p.renumber(before, offers, info.Behind)
	p.link, p.offers, p.installation, p.lost = l, offers, info.Installation, time.Time{}
	p.runs = make(map[string]acp.RunInfo, len(info.Runs))
	for _, r := range info.Runs {
		p.runs[r.RunID] = r
	}
	p.row = p.register(who, info)
	p.folder = folderOf(p.row.Capabilities)
	l.mu.Lock()
	l.p = p
	l.mu.Unlock()
	l.now(&acp.RegisterAck{Success: true, Offers: acp.Offers{Seq: offers.Seq, PermissionCancelled: true, Elicitation: true, Epoch: p.g.epoch}})
	p.out.Attach(offers.Seq)
	p.once.Do(func() { close(p.first) })
	p.mu.Unlock()
	p.inMu.Unlock()
	if old != nil && old != l {
		old.end(&goodbye{closeReplaced, "replaced by a newer connection"})
	}
	p.log().Info("proxy linked", slog.String("agent", p.row.AgentID), slog.Bool("counts", offers.Seq), slog.Bool("restarted", restarted))
	if renewed {
		p.g.keeper.revoke(p, time.Now())
	}
	p.changed(func(t *tunnel) {
		if renewed {
			t.revokeToken()
		}
		t.linkUp(restarted, offers.Seq)
	})
	l.ring()
	return true
}

// renumber sees to the numbers of what comes: they go on within one epoch of the sender.
func (p *proxy) renumber(before, now acp.Offers, behind map[string]int64) {
	switch {
	case !now.Seq:
		p.in = nil
	case p.in == nil || before.Epoch != now.Epoch:
		p.in = counted.NewInbox[frame](behind)
	}
}

// register is the row of a proxy that has introduced itself.
func (p *proxy) register(who Identity, info acp.ProxyInfo) store.Proxy {
	row, now := p.row, time.Now()
	row.ID, row.Name, row.AgentID = p.id, info.Name, agentOf(who)
	if who.Name != "" {
		row.Name = who.Name
	}
	row.Capabilities, row.MaxConcurrent = validJSON(info.Capabilities), max(0, info.MaxConcurrent)
	if row.RegisteredAt.IsZero() {
		row.RegisteredAt = now
	}
	row.Status, row.ConnectedAt, row.LastSeen, row.LastError = store.ProxyOnline, now, now, ""
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
	waiting := p.pending
	p.pending = make(map[string]chan acp.Frame)
	p.mu.Unlock()
	for _, ch := range waiting {
		close(ch)
	}
	p.log().Warn("proxy gone", slog.Any("error", why))
	p.changed(func(t *tunnel) { t.linkDown() })
}

// changed tells the proxy's tunnels, the store and the metrics.
func (p *proxy) changed(tell func(*tunnel)) {
	for _, t := range p.g.allTunnels() {
		if t.p == p {
			tell(t)
		}
	}
	p.g.keeper.proxy(p)
	if f := p.g.cfg.Meter.Linked; f != nil {
		n := 0
		for _, other := range p.g.allProxies() {
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

func (p *proxy) counts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offers.Seq
}

func (p *proxy) epoch() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offers.Epoch
}

// inheritedEpoch is the epoch of the proxy's last start before this process.
func (p *proxy) inheritedEpoch() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// has says whether the proxy listed a prompt when it registered.
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

func (p *proxy) serves(agentID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.row.AgentID == agentID
}

// send queues a frame of a run.
func (p *proxy) send(run string, f acp.Frame) {
	body, err := acp.Encode(f)
	if err != nil {
		p.log().Error("a message could not be written", slog.String("type", f.Type()), slog.Any("error", err))
		return
	}
	p.out.Put(run, body)
	p.mu.Lock()
	l := p.link
	p.mu.Unlock()
	if l != nil {
		l.ring()
	}
}

// take is the next frame for l, if l is still the proxy's link.
func (p *proxy) take(l *link) (counted.Letter, []byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != l {
		return counted.Letter{}, nil, false
	}
	return p.out.Take()
}

// ack says that a run's frames are kept, up to a number of this epoch.
func (p *proxy) ack(run, epoch string, seq int64) {
	p.mu.Lock()
	l, same := p.link, p.offers.Epoch == epoch && p.offers.Seq
	p.mu.Unlock()
	if l != nil && same && seq > 0 {
		l.ack(run, seq)
	}
}

// seen notes a sign of life.
func (p *proxy) seen() {
	p.mu.Lock()
	p.row.LastSeen = time.Now()
	p.mu.Unlock()
}

// ask sends a control and waits for its answer.
func (p *proxy) ask(ctx context.Context, run, id string, f acp.Frame) (acp.Frame, error) {
	answer := make(chan acp.Frame, 1)
	p.mu.Lock()
	if p.link == nil {
		p.mu.Unlock()
		return nil, errOffline
	}
	p.pending[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, id)
		p.mu.Unlock()
	}()
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

// answered hands a control's answer to who waits for it. The first counts.
func (p *proxy) answered(id string, f acp.Frame) {
	p.mu.Lock()
	ch := p.pending[id]
	delete(p.pending, id)
	p.mu.Unlock()
	switch {
	case ch != nil:
		ch <- f
	case !strings.HasPrefix(id, cancelPrefix):
		p.g.refuse(refusedUnexpected)
	}
}
