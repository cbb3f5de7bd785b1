package acpgateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// Gateway is one replica's end of /ws/agent.
type Gateway struct {
	cfg   Config
	log   *slog.Logger
	epoch string // of this start; the numbers of our frames begin again with it
	up    websocket.Upgrader
	once  sayOnce
	began chan struct{} // closed when Run has begun; links wait for it

	seating sync.Mutex // while it is decided who gets a seat at a proxy

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before it and after its end
	agents  map[string]*Agent
	proxies map[string]*proxy
	tunnels map[string]*tunnel
	wg      sync.WaitGroup

	keeper keeper
	caller caller
}

// New makes a Gateway and the Agents that are configured; Run must be running for links.
func New(cfg Config) *Gateway {
	cfg.Limits = cfg.Limits.withDefaults()
	g := &Gateway{
		cfg: cfg, log: cfg.Logger, epoch: uuid.NewString(), began: make(chan struct{}),
		agents: make(map[string]*Agent), proxies: make(map[string]*proxy), tunnels: make(map[string]*tunnel),
		// Proxies are programs; a page that opens this socket is up to no good.
		up: websocket.Upgrader{CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" }},
	}
	g.keeper.g, g.keeper.bell = g, make(chan struct{}, 1)
	g.caller.g, g.caller.bell = g, make(chan struct{}, 1)
	for _, id := range cfg.Order {
		g.agent(id)
	}
	for _, id := range slices.Sorted(maps.Keys(cfg.Agents)) {
		g.agent(id)
	}
	return g
}

// Run serves links until ctx ends; then it closes them and returns when all is still. What
// agents are at goes on without us, for the next process to take up.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := g.restore(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	g.ctx = ctx
	g.mu.Unlock()
	close(g.began)
	g.wg.Go(func() { g.keeper.run(ctx) })
	g.wg.Go(func() { g.caller.run(ctx) })
	g.wg.Go(func() { g.sweep(ctx) })
	<-ctx.Done()
	g.mu.Lock()
	g.ctx = nil
	g.mu.Unlock()
	g.wg.Wait()
	g.keeper.last()
	return nil
}

// restore learns which proxies have been here: their Agents exist, though offline.
func (g *Gateway) restore(ctx context.Context) error {
	rows, err := g.cfg.Registry.Proxies(ctx)
	for _, row := range rows {
		g.agent(row.AgentID)
		p := g.proxy(row.ID)
		p.mu.Lock()
		p.row = row
		p.before = acp.ProxyInfo{Capabilities: row.Capabilities}.Offers().Epoch
		p.row.Status = store.ProxyOffline
		var list acp.WorkspaceInventory
		_ = json.Unmarshal(row.Workspaces, &list) // of our own writing, or none
		p.folder, p.folders = folderOf(row.Capabilities), foldersOf(list)
		p.mu.Unlock()
		if row.Status != store.ProxyOffline {
			g.keeper.proxy(p) // the process before this one had no time to
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// agent finds an Agent or makes it and puts it into the Directory. It is nil when the id
// belongs to an Agent of another sort.
func (g *Gateway) agent(id string) *Agent {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.agents[id]; a != nil {
		return a
	}
	a := &Agent{g: g, id: id, cfg: g.cfg.Agents[id]}
	if !g.cfg.Directory.AddNew(id, a) {
		return nil
	}
	g.agents[id] = a
	return a
}

func (g *Gateway) proxy(id string) *proxy {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.proxies[id]
	if p == nil {
		p = newProxy(g, id)
		g.proxies[id] = p
	}
	return p
}

func (g *Gateway) knownProxy(id string) *proxy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proxies[id]
}

func (g *Gateway) allProxies() []*proxy {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*proxy, 0, len(g.proxies))
	for _, p := range g.proxies {
		all = append(all, p)
	}
	return all
}

func (g *Gateway) allTunnels() []*tunnel {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*tunnel, 0, len(g.tunnels))
	for _, t := range g.tunnels {
		all = append(all, t)
	}
	return all
}

// known finds a Session's tunnel in memory.
func (g *Gateway) known(sessionID string) *tunnel {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tunnels[sessionID]
}

// tunnel finds a Session's tunnel, or the proxy it was bound to before a restart.
// store.ErrNotFound when it never had one.
func (g *Gateway) tunnel(ctx context.Context, sessionID string) (*tunnel, error) {
	if t := g.known(sessionID); t != nil {
		return t, nil
	}
	row, err := g.cfg.Registry.Instance(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	return g.bind(row, g.proxy(row.ProxyID)), nil
}

// bind makes the tunnel of a Session to a proxy, unless it has one.
func (g *Gateway) bind(row store.SandboxInstance, p *proxy) *tunnel {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tunnels[row.SessionID]
	if t == nil {
		t = newTunnel(g, p, row)
		g.tunnels[row.SessionID] = t
	}
	return t
}

// Began is closed when the Agents of proxies that were here before are known.
func (g *Gateway) Began() <-chan struct{} { return g.began }

// Await returns when a proxy has linked, or when ctx ends.
func (g *Gateway) Await(ctx context.Context, proxyID string) {
	select {
	case <-g.proxy(proxyID).first:
	case <-ctx.Done():
	}
}

// drop forgets a tunnel that nothing waits in.
func (g *Gateway) drop(t *tunnel) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tunnels[t.id] == t {
		delete(g.tunnels, t.id)
	}
}

// running is the context of Run and a place among what it waits for; false when it ends.
func (g *Gateway) running() (context.Context, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil || g.ctx.Err() != nil {
		return nil, false
	}
	g.wg.Add(1)
	return g.ctx, true
}

func (g *Gateway) refuse(reason string) {
	if f := g.cfg.Meter.Refused; f != nil {
		f(reason)
	}
}

// sweepEvery is how often waits are looked at; none of them is shorter than some seconds.
const sweepEvery = time.Second

// sweep sees to what nobody waits for: prompts that do not end, agents that rest.
func (g *Gateway) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, t := range g.allTunnels() {
				t.sweep(now)
			}
		}
	}
}

// sayOnce lets the log have the first of a kind, and not the million after it.
type sayOnce struct {
	mu   sync.Mutex
	said map[string]bool
}

// maxSaid bounds what is remembered; a peer chooses the names.
const maxSaid = 256

func (s *sayOnce) first(what string) bool {
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
