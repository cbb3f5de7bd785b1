package acpgateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/retry"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

// maxRecords is how many records may wait for the store; past it reading stops.
const maxRecords = 1 << 14

// keeper writes down what is not part of a Session's log: records, proxies, instances. Its
// goroutine alone does, so that no link waits for the store.
//
// What has to be kept is gathered in sets and lists under mu and taken all at once: a proxy that changes a hundred
// times while one write is under way is written once more. Records keep their order.
type keeper struct {
	g    *Gateway
	bell wake.Signal

	saving sync.Mutex // while a proxy or an instance is written; removing a proxy excludes it

	mu        sync.Mutex
	records   []store.Record
	shown     map[string]bool // ids of those among them that watchers have in parts
	room      chan struct{}   // closed when records were taken
	flushes   []flushing      // in the order of their times
	proxies   map[*proxy]bool
	instances map[*channel]bool
	revoked   map[*proxy]time.Time
	listed    map[*proxy]*wire.SandboxInventory
}

// flushing is a recorder that merges, until a time.
type flushing struct {
	rec *recorder
	at  time.Time
}

// work is what a keeper has to do.
type work struct {
	records   []store.Record
	shown     map[string]bool
	proxies   map[*proxy]bool
	instances map[*channel]bool
	revoked   map[*proxy]time.Time
	listed    map[*proxy]*wire.SandboxInventory
}

// mergeLooks is how often within the time that chunks are merged it is looked whose time has come.
const mergeLooks = 8

// The timer looks for merged chunks whose time has come; the bell wakes it for everything else.
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
			f.rec.due()
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
	w := work{records: k.records, shown: k.shown, proxies: k.proxies, instances: k.instances, revoked: k.revoked, listed: k.listed}
	k.records, k.shown, k.proxies, k.instances, k.revoked, k.listed = nil, nil, nil, nil, nil, nil
	if k.room != nil {
		close(k.room)
		k.room = nil
	}
	return w
}

// A failed write of a row is logged and not tried again: the next change writes the whole row. Records go Session by
// Session, so that one that is deleted does not take the others' along.
func (k *keeper) keep(ctx context.Context, w work) {
	for _, records := range bySession(w.records) {
		if err := k.g.cfg.Note(ctx, records, func() { k.g.publishRecords(records, w.shown) }); err != nil && ctx.Err() == nil {
			k.g.log.Error("records were not kept", slog.Int("records", len(records)), slog.Any("error", err))
		}
	}
	for p := range w.proxies {
		k.logError(ctx, k.saveProxy(ctx, p))
	}
	for p, at := range w.revoked {
		k.logError(ctx, k.g.cfg.Registry.RevokeTokens(ctx, p.id, at))
	}
	for p, m := range w.listed {
		k.logError(ctx, k.saveListed(ctx, p, m))
	}
	for c := range w.instances {
		k.logError(ctx, k.saveInstance(ctx, c))
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
	row.Replica = k.g.cfg.Replica
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

func (k *keeper) saveInstance(ctx context.Context, c *channel) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	if c.p.isRetired() {
		return nil
	}
	row := c.agent.instance()
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

func (k *keeper) logError(ctx context.Context, err error) {
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
	for _, c := range k.g.fleet.allChannels() {
		c.records.flush()
	}
	k.keep(ctx, k.take())
}

// record queues one record. shown is true if the watchers have it in parts. record blocks while too many records wait,
// because the store stalls.
// The link's goroutine blocks here, and with it the socket, so a proxy feels a stalled store as back pressure. Without
// an end of ctx (a flush at the end) it never waits.
func (k *keeper) record(ctx context.Context, r store.Record, shown bool) {
	for {
		k.mu.Lock()
		if len(k.records) < maxRecords || ctx.Done() == nil {
			k.records = append(k.records, r)
			if shown {
				if k.shown == nil {
					k.shown = make(map[string]bool)
				}
				k.shown[r.ID] = true
			}
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
	k.bell.Ring()
}

func (k *keeper) due(rec *recorder, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushes = append(k.flushes, flushing{rec, at})
}

func (k *keeper) proxy(p *proxy) {
	k.mu.Lock()
	if k.proxies == nil {
		k.proxies = make(map[*proxy]bool)
	}
	k.proxies[p] = true
	k.mu.Unlock()
	k.bell.Ring()
}

// list keeps the newest list of a proxy's instances.
func (k *keeper) list(p *proxy, m *wire.SandboxInventory) {
	k.mu.Lock()
	if k.listed == nil {
		k.listed = make(map[*proxy]*wire.SandboxInventory)
	}
	k.listed[p] = m
	k.mu.Unlock()
	k.bell.Ring()
}

// revoke makes the tokens worthless that a proxy's agents got before a time.
func (k *keeper) revoke(p *proxy, before time.Time) {
	k.mu.Lock()
	if k.revoked == nil {
		k.revoked = make(map[*proxy]time.Time)
	}
	k.revoked[p] = before
	k.mu.Unlock()
	k.bell.Ring()
}

func (k *keeper) instance(c *channel) {
	k.mu.Lock()
	if k.instances == nil {
		k.instances = make(map[*channel]bool)
	}
	k.instances[c] = true
	k.mu.Unlock()
	k.bell.Ring()
}

// activityNotifier notifies the bridge of Sessions whose agent sends output that no Turn reads. It may take a transaction
// each, which no link must wait for.
// One entry a Session: an agent that streams without a Turn asks for one, not for one a frame.
type activityNotifier struct {
	g    *Gateway
	bell wake.Signal

	mu  sync.Mutex
	ids []string
	in  map[string]bool
}

func (n *activityNotifier) notify(id string) {
	n.mu.Lock()
	if n.in == nil {
		n.in = make(map[string]bool)
	}
	if !n.in[id] {
		n.in[id] = true
		n.ids = append(n.ids, id)
	}
	n.mu.Unlock()
	n.bell.Ring()
}

// notifyAgain is the pause before the bridge is notified again, after that failed.
const notifyAgain = time.Second

func (n *activityNotifier) run(ctx context.Context) {
	for {
		select {
		case <-n.bell:
		case <-ctx.Done():
			return
		}
		for id, ok := n.next(); ok; id, ok = n.next() {
			if err := n.g.cfg.NotifyActivity(ctx, id); err != nil && ctx.Err() == nil {
				n.g.log.Error("an agent speaks and cannot be heard yet", slog.String("session_id", id), slog.Any("error", err))
				// The Session is put behind the others, so that one that fails does not starve them.
				_ = retry.Sleep(ctx, notifyAgain) // the loop above sees that ctx has ended
				n.notify(id)
			}
		}
	}
}

func (n *activityNotifier) next() (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ids) == 0 {
		return "", false
	}
	id := n.ids[0]
	n.ids = n.ids[1:]
	delete(n.in, id)
	return id, true
}
