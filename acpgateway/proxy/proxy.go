package proxy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/acp"
	"aqueduct/acpgateway/counted"
)

// Proxy is one acp-proxy.
type Proxy struct {
	cfg   Config
	log   *slog.Logger
	epoch string // of this start
	// installation outlives this start; "" when the proxy has no folder.
	installation string
	out          *counted.Outbox
	urgent       chan acp.Frame             // not counted: sent on this link or never
	offers       atomic.Pointer[acp.Offers] // of the gateway on the link
	asks         atomic.Int64               // permission requests so far
	born         atomic.Int64               // agents so far
	slots        chan struct{}              // controls under way
	shown        atomic.Pointer[string]     // the token of the last link
	// refused is the last token that the gateway did not take; from then on tokens are got by registering.
	refused atomic.Pointer[string]

	furnishing sync.Mutex // while a workspace is made or removed: git locks its repository, and fails instead of waiting

	ctx  context.Context // of Run
	wg   sync.WaitGroup
	gate sync.RWMutex // held while a message is handled
	shut bool         // nothing is begun any more

	mu   sync.Mutex
	runs map[string]*run
	// ending are runs that were closed and whose process may still live.
	ending map[string]*run
	sizes  map[string]int64 // of workspaces, by run; as found last
	seen   map[string]int64 // numbers of the gateway's frames that were handled, by run
	peer   string           // the gateway's epoch they belong to
}

// urgentFrames is how many uncounted frames may wait; more are dropped, they are repeated.
const urgentFrames = 256

// New makes a Proxy.
func New(cfg Config) (*Proxy, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		cfg: cfg, log: cfg.Log, epoch: uuid.NewString(), out: counted.NewOutbox(), urgent: make(chan acp.Frame, urgentFrames),
		slots: make(chan struct{}, controls), runs: map[string]*run{}, ending: map[string]*run{}, seen: map[string]int64{},
	}
	p.offers.Store(&acp.Offers{})
	return p, nil
}

// errShutdown ends every run.
var errShutdown = errors.New("proxy is shutting down")

// Run serves until ctx ends. It then stops its agents, tells so, and leaves nothing behind.
func (p *Proxy) Run(ctx context.Context) error {
	if p.cfg.State != "" {
		id, held, err := claim(p.cfg.State)
		if err != nil {
			return err
		}
		defer held.Close()
		p.installation = id
	}
	guard := startGuard(p.epoch, p.log)
	defer guard.end()
	runs, stopRuns := context.WithCancelCause(context.WithoutCancel(ctx))
	p.ctx = runs
	links, stopLinks := context.WithCancel(context.WithoutCancel(ctx))
	linked := make(chan struct{})
	go func() {
		defer close(linked)
		p.keepLinked(links)
	}()
	<-ctx.Done()
	p.gate.Lock()
	p.shut = true
	p.gate.Unlock()
	stopRuns(errShutdown)
	p.wg.Wait()
	p.flush()
	stopLinks()
	<-linked
	return nil
}

// flush gives the last frames a moment; they are not worth more.
func (p *Proxy) flush() {
	deadline := time.After(flushGrace)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !p.out.Written() {
		select {
		case <-tick.C:
		case <-deadline:
			return
		}
	}
}

// send queues a frame of a run. It says whether the frame was small enough to go.
func (p *Proxy) send(runID string, f acp.Frame) bool {
	body, err := acp.Encode(f)
	if err != nil {
		p.log.Error("a message could not be written", "type", f.Type(), "err", err)
		return false
	}
	if len(body) > frameBytes {
		// The gateway would cut the link over it, again and again.
		p.log.Warn("a message is too large for the gateway", "type", f.Type(), "run", runID, "bytes", len(body))
		return false
	}
	p.out.Put(runID, body)
	return true
}

// now queues a frame that is worth nothing later.
func (p *Proxy) now(f acp.Frame) {
	select {
	case p.urgent <- f:
	default:
	}
}

// run finds a run, or makes it.
func (p *Proxy) run(id string) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[id]
	if r == nil {
		r = newRun(p, id, p.ending[id])
		p.runs[id] = r
		p.wg.Go(r.work)
	}
	return r
}

// known finds a run.
func (p *Proxy) known(id string) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[id]
}

func (p *Proxy) all() []*run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.runs), func(a, b *run) int { return a.created.Compare(b.created) })
}

// forget ends a run for good and waits for its process.
func (p *Proxy) forget(r *run) {
	if p.detach(r) {
		p.bury(r, func() {})
	}
	<-r.gone
}

// detach takes a run out and stops it. False: somebody else has.
func (p *Proxy) detach(r *run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[r.id] != r {
		return false
	}
	delete(p.runs, r.id)
	p.ending[r.id] = r
	r.stop(errRunClosed)
	return true
}

// bury waits for the process of a run that was taken out, and tells its end.
func (p *Proxy) bury(r *run, tell func()) {
	<-r.done
	tell()
	close(r.gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending[r.id] == r {
		delete(p.ending, r.id)
	}
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339Nano) }
