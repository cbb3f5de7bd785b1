package acpgateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// maxRecords is how many records may wait for the store; past it reading stops.
const maxRecords = 1 << 14

// keeper writes down what is not part of a Session's log: records, proxies, instances. Its
// goroutine alone does, so that no link waits for the store.
type keeper struct {
	g    *Gateway
	bell chan struct{} // capacity 1

	saving sync.Mutex // while a proxy or an instance is written; removing a proxy excludes it

	mu        sync.Mutex
	records   []store.Record
	room      chan struct{} // closed when records were taken
	flushes   []flushing    // in the order of their times
	proxies   map[*proxy]bool
	instances map[*tunnel]bool
	revoked   map[*proxy]time.Time
	listed    map[*proxy]*acp.SandboxInventory
}

// flushing is a recorder that merges, until a time.
type flushing struct {
	t  *tunnel
	at time.Time
}

// work is what a keeper has to do.
type work struct {
	records   []store.Record
	proxies   map[*proxy]bool
	instances map[*tunnel]bool
	revoked   map[*proxy]time.Time
	listed    map[*proxy]*acp.SandboxInventory
}

// mergeLooks is how often within the time that chunks are merged it is looked whose time has come.
const mergeLooks = 8

func (k *keeper) run(ctx context.Context) {
	mergeTime := k.g.cfg.Limits.MergeTime
	timer := time.NewTimer(mergeTime)
	defer timer.Stop()
	for {
		select {
		case <-k.bell:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for _, f := range k.merged(time.Now()) {
			f.t.records.due()
		}
		k.keep(ctx, k.take())
		timer.Reset(mergeTime/mergeLooks + time.Millisecond)
	}
}

// merged takes the recorders whose time has come.
func (k *keeper) merged(now time.Time) []flushing {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for n < len(k.flushes) && !k.flushes[n].at.After(now) {
		n++
	}
	due := k.flushes[:n:n]
	k.flushes = k.flushes[n:]
	return due
}

func (k *keeper) take() work {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := work{records: k.records, proxies: k.proxies, instances: k.instances, revoked: k.revoked, listed: k.listed}
	k.records, k.proxies, k.instances, k.revoked, k.listed = nil, nil, nil, nil, nil
	if k.room != nil {
		close(k.room)
		k.room = nil
	}
	return w
}

func (k *keeper) keep(ctx context.Context, w work) {
	for _, records := range bySession(w.records) {
		if err := k.g.cfg.Note(ctx, records, func() { k.g.recorded(records) }); err != nil && ctx.Err() == nil {
			k.g.log.Error("records were not kept", slog.Int("records", len(records)), slog.Any("error", err))
		}
	}
	for p := range w.proxies {
		k.complain(ctx, k.saveProxy(ctx, p))
	}
	for p, at := range w.revoked {
		k.complain(ctx, k.g.cfg.Registry.RevokeTokens(ctx, p.id, at))
	}
	for p, m := range w.listed {
		k.complain(ctx, k.saveListed(ctx, p, m))
	}
	for t := range w.instances {
		k.complain(ctx, k.saveInstance(ctx, t))
	}
}

// saveProxy writes a proxy's row as it is now. A removed proxy stays removed: without the lock its row could be written
// right behind the removal.
func (k *keeper) saveProxy(ctx context.Context, p *proxy) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	p.mu.Lock()
	row, retired := p.row, p.retired
	p.mu.Unlock()
	if retired {
		return nil
	}
	return k.g.cfg.Registry.SaveProxy(ctx, row)
}

// saveRow writes the row of a Session that is not in memory.
func (k *keeper) saveRow(ctx context.Context, p *proxy, row store.SandboxInstance) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	if p.isRetired() {
		return nil
	}
	return k.g.cfg.Registry.SaveInstance(ctx, row)
}

func (k *keeper) saveInstance(ctx context.Context, t *tunnel) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	if t.p.isRetired() {
		return nil
	}
	t.mu.Lock()
	row := t.row
	t.mu.Unlock()
	row.UpdatedAt = time.Now()
	return k.g.cfg.Registry.SaveInstance(ctx, row)
}

// bySession parts records, so that what the store refuses is one Session's.
func bySession(records []store.Record) map[string][]store.Record {
	parts := make(map[string][]store.Record)
	for _, r := range records {
		parts[r.SessionID] = append(parts[r.SessionID], r)
	}
	return parts
}

func (k *keeper) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		k.g.log.Error("a proxy or an instance was not kept", slog.Any("error", err))
	}
}

// lastWait bounds the last write of a gateway that stops.
const lastWait = 2 * time.Second

// last keeps what is left when nothing comes any more.
func (k *keeper) last() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	for _, t := range k.g.allTunnels() {
		t.records.flush()
	}
	k.keep(ctx, k.take())
}

// record takes one record. It blocks while too many wait: then the store stalls.
func (k *keeper) record(ctx context.Context, r store.Record) {
	for {
		k.mu.Lock()
		if len(k.records) < maxRecords || ctx.Done() == nil {
			k.records = append(k.records, r)
			k.mu.Unlock()
			break
		}
		if k.room == nil {
			k.room = make(chan struct{})
		}
		room := k.room
		k.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
	k.ring()
}

func (k *keeper) due(t *tunnel, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushes = append(k.flushes, flushing{t, at})
}

func (k *keeper) proxy(p *proxy) {
	k.mu.Lock()
	if k.proxies == nil {
		k.proxies = make(map[*proxy]bool)
	}
	k.proxies[p] = true
	k.mu.Unlock()
	k.ring()
}

// list keeps the newest list of a proxy's instances.
func (k *keeper) list(p *proxy, m *acp.SandboxInventory) {
	k.mu.Lock()
	if k.listed == nil {
		k.listed = make(map[*proxy]*acp.SandboxInventory)
	}
	k.listed[p] = m
	k.mu.Unlock()
	k.ring()
}

// revoke makes the tokens worthless that a proxy's agents got before a time.
func (k *keeper) revoke(p *proxy, before time.Time) {
	k.mu.Lock()
	if k.revoked == nil {
		k.revoked = make(map[*proxy]time.Time)
	}
	k.revoked[p] = before
	k.mu.Unlock()
	k.ring()
}

func (k *keeper) instance(t *tunnel) {
	k.mu.Lock()
	if k.instances == nil {
		k.instances = make(map[*tunnel]bool)
	}
	k.instances[t] = true
	k.mu.Unlock()
	k.ring()
}

func (k *keeper) ring() {
	select {
	case k.bell <- struct{}{}:
	default:
	}
}

// caller tells the bridge of Sessions whose agent speaks unheard. It may take a transaction
// each, which no link must wait for.
type caller struct {
	g    *Gateway
	bell chan struct{} // capacity 1

	mu  sync.Mutex
	ids []string
	in  map[string]bool
}

func (c *caller) call(id string) {
	c.mu.Lock()
	if c.in == nil {
		c.in = make(map[string]bool)
	}
	if !c.in[id] {
		c.in[id] = true
		c.ids = append(c.ids, id)
	}
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// callAgain is the pause before the bridge is told again, after it could not take it.
const callAgain = time.Second

func (c *caller) run(ctx context.Context) {
	for {
		select {
		case <-c.bell:
		case <-ctx.Done():
			return
		}
		for id, ok := c.next(); ok; id, ok = c.next() {
			if err := c.g.cfg.Spoke(ctx, id); err != nil && ctx.Err() == nil {
				c.g.log.Error("an agent speaks and cannot be heard yet", slog.String("session_id", id), slog.Any("error", err))
				pause(ctx, callAgain)
				c.call(id)
			}
		}
	}
}

func (c *caller) next() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) == 0 {
		return "", false
	}
	id := c.ids[0]
	c.ids = c.ids[1:]
	delete(c.in, id)
	return id, true
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
