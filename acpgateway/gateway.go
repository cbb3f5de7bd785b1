package acpgateway

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// Gateway is one replica's end of /ws/agent.
//
// It owns four goroutines besides those of its links. The keeper writes rows, the notifier wakes the engine, the sweep applies
// timeouts, and follow reads the links of other replicas. All end with Run's context, and Run returns after the last of them.
//
// A Gateway holds no Session's state that a restart would lose. A new one reads its state from the rows of proxies and
// instances, from the log's marks, and from the lists that the proxies send when they link again.
type Gateway struct {
	cfg   Config
	log   *slog.Logger
	epoch string // of this start; the numbers of our frames begin again with it
	up    websocket.Upgrader
	once  logOnce
	began chan struct{} // closed when Run has begun; links wait for it

	mu  sync.Mutex
	ctx context.Context // of Run; nil before it and after its end
	wg  sync.WaitGroup

	fleet    fleet
	controls controls
	keeper   keeper
	notifier activityNotifier
}

// New makes a Gateway and the Agents that are configured; Run must be running for links.
func New(cfg Config) *Gateway {
	cfg.Limits = cfg.Limits.withDefaults()
	g := &Gateway{
		cfg: cfg, log: cfg.Logger, epoch: uuid.NewString(), began: make(chan struct{}),
		// Proxies are programs; a page that opens this socket is up to no good.
		up: websocket.Upgrader{CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" }},
	}
	// The three constructors keep fleet free of the Gateway, so that it can be read, and tried, as the registry it is.
	g.fleet = fleet{
		cfg: &g.cfg, agents: make(map[string]*Agent), proxies: make(map[string]*proxy), channels: make(map[string]*channel),
		newAgent:   func(id string) *Agent { return &Agent{g: g, id: id, cfg: cfg.Agents[id]} },
		newProxy:   func(id string) *proxy { return newProxy(g, id) },
		newChannel: func(p *proxy, row store.SandboxInstance) *channel { return newChannel(g, p, row) },
	}
	g.controls = controls{cfg: &g.cfg, fleet: &g.fleet, keeper: &g.keeper}
	g.keeper.g, g.keeper.bell = g, wake.New()
	g.notifier.g, g.notifier.bell = g, wake.New()
	cfg.Directory.OnUnknown(g.OnUnknown)
	for _, id := range cfg.Order {
		g.fleet.agent(id)
	}
	for _, id := range slices.Sorted(maps.Keys(cfg.Agents)) {
		g.fleet.agent(id)
	}
	return g
}

// Controller steers proxies and the agents behind them.
func (g *Gateway) Controller() bridge.Controller { return &g.controls }

// Run serves links until ctx ends; then it closes them and returns when all is still. What
// agents are at goes on without us, for the next process to take up.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := g.restore(store.Patient(ctx)); err != nil { // a database that goes away while others are served already comes back
		return err
	}
	// Links wait for began, which is closed only now: one that came earlier would find a Gateway without proxies and
	// bind its Sessions anew.
	g.mu.Lock()
	g.ctx = ctx
	g.mu.Unlock()
	close(g.began)
	g.wg.Go(func() { g.keeper.run(ctx) })
	g.wg.Go(func() { g.notifier.run(ctx) })
	g.wg.Go(func() { g.sweep(ctx) })
	g.wg.Go(func() { g.follow(ctx) })
	<-ctx.Done()
	g.mu.Lock()
	g.ctx = nil
	g.mu.Unlock()
	g.wg.Wait()
	// The links have ended, so nothing new comes; what they left is written under a bound of its own, since ctx is
	// over.
	g.keeper.last()
	return nil
}

// restore learns which proxies have been here: their Agents exist, though offline.
func (g *Gateway) restore(ctx context.Context) error {
	rows, err := g.cfg.Registry.Proxies(ctx)
	now := time.Now()
	for _, row := range rows {
		p := g.learn(row)
		if row.Status == store.ProxyOnline || now.Sub(row.LastSeen) < linkWait {
			expect(p, now.Add(linkWait))
		}
		// A process that was killed leaves its proxies online in their rows. They are not: their sockets ended with
		// it. The row of one that is linked to a replica which lives stays as it is (store.ProxyTx).
		if row.Status != store.ProxyOffline {
			g.keeper.proxy(p) // the process before this one had no time to
		}
	}
	for id, agentID := range g.cfg.Own {
		p := g.fleet.proxy(id)
		p.mu.Lock()
		p.row.AgentID = agentID
		p.mu.Unlock()
		expect(p, now.Add(linkWait))
	}
	if err == nil {
		err = g.lookElsewhere(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// Began is closed when the Agents of proxies that were here before are known.
func (g *Gateway) Began() <-chan struct{} { return g.began }

// Await returns true when a proxy has linked, and false when ctx ends before.
func (g *Gateway) Await(ctx context.Context, proxyID string) bool {
	first := g.fleet.proxy(proxyID).first
	select {
	case <-first:
		return true
	case <-ctx.Done():
	}
	select {
	case <-first: // both were ready
		return true
	default:
		return false
	}
}

// running is the context of Run and a place among what it waits for; false when it ends.
//
// A link that upgrades while the Gateway stops must either be waited for or be refused. The check and the Add are one
// step under the lock, because a WaitGroup that is added to while it is waited for at zero is a race.
func (g *Gateway) running() (context.Context, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil || g.ctx.Err() != nil {
		return nil, false
	}
	g.wg.Add(1)
	return g.ctx, true
}

func (g *Gateway) countRefused(reason string) {
	if f := g.cfg.Meter.Refused; f != nil {
		f(reason)
	}
}

// unexpected counts an answer that nothing waits for.
func (g *Gateway) unexpected(expected bool) {
	if !expected {
		g.countRefused(refusedUnexpected)
	}
}

// sweepEvery is how often waits are looked at; none of them is shorter than some seconds.
const sweepEvery = time.Second

// sweep ends what no goroutine waits for: prompts that do not end, agents that rest.
func (g *Gateway) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, c := range g.fleet.allChannels() {
				c.sweep(now)
			}
		}
	}
}

// logOnce lets the log have the first of a kind, and not the million after it.
// A broken or hostile proxy sends the same wrong frame a thousand times a second; the metrics count each.
type logOnce struct {
	mu   sync.Mutex
	said map[string]bool
}

// maxSaid bounds what is remembered; a peer chooses the names.
const maxSaid = 256

func (s *logOnce) first(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[what] || len(s.said) == maxSaid {
		return false
	}
	if s.said == nil {
		s.said = make(map[string]bool)
	}
	s.said[what] = true
	return true
}
