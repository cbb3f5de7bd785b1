package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"aqueduct/internal/child"
)

// Proxy is one acp-proxy: it starts agents on its host, speaks ACP with them, and passes their frames to the gateway.
// It owns the parts and dispatches the gateway's messages to them; a run's goroutine does the run's work in order.
// It ends with the context of Run.
//
// There are four kinds of goroutines: the link's two, one for each run, those of each agent (agent.watch), and controls.
// wg counts all but the link's, and Run returns after the last of them.
// It grows under gate while shut is not set, or from a goroutine that it counts already; so Run's Wait misses none.
type Proxy struct {
	cfg   Config
	log   *slog.Logger
	epoch string // of this start
	// installation outlives this start; "" when the proxy has no folder.
	installation string
	link         *link
	slots        chan struct{} // controls under way

	ctx  context.Context // of Run
	wg   sync.WaitGroup
	gate sync.RWMutex // held while a message is handled
	shut bool         // nothing is begun any more

	runs       *runSet
	launch     *launcher
	starter    *starter
	workspaces *workspaces
	sandboxes  *sandboxes
}

// New makes a Proxy.
func New(cfg Config) (*Proxy, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		cfg: cfg, log: cfg.Log, epoch: uuid.NewString(),
		slots: make(chan struct{}, controls),
	}
	p.link = newLink(cfg, p)
	p.runs = &runSet{max: cfg.MaxConcurrent, byID: map[string]*run{}, ending: map[string]*run{}, start: p.startRun}
	p.launch = &launcher{cfg: cfg}
	p.workspaces = &workspaces{cfg: cfg, log: cfg.Log, launch: p.launch}
	p.starter = &starter{cfg: cfg, epoch: p.epoch, launcher: p.launch, workspaces: p.workspaces, link: p.link, wg: &p.wg}
	p.sandboxes = &sandboxes{cfg: cfg, log: cfg.Log, link: p.link, runs: p.runs, workspaces: p.workspaces, launch: p.launch}
	p.workspaces.changed = func() { p.link.sendNow(p.sandboxes.workspaceInventory()) }
	return p, nil
}

// errShutdown ends every run.
var errShutdown = errors.New("proxy is shutting down")

// Run serves until ctx ends. It then stops its agents, reports their end, and leaves nothing behind.
//
// At its end the order is: no message begins anything, the runs end with their agents, their last frames go out, and
// only then the link closes. The gateway so learns of each agent's end instead of losing the link to it.
func (p *Proxy) Run(ctx context.Context) error {
	if p.cfg.State != "" {
		id, held, err := claim(p.cfg.State)
		if err != nil {
			return err
		}
		defer held.Close()
		p.installation = id
	}
	// For the end that no code of ours sees, kill -9.
	guard := child.StartGuard(p.epoch, p.log)
	defer guard.End()
	// Neither ends with ctx itself: the order below is what ends them.
	runs, stopRuns := context.WithCancelCause(context.WithoutCancel(ctx))
	p.ctx = runs
	links, stopLinks := context.WithCancel(context.WithoutCancel(ctx))
	linked := make(chan struct{})
	go func() {
		defer close(linked)
		p.link.run(links)
	}()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if p.cfg.Renews {
			p.link.renew(links)
		}
	}()
	<-ctx.Done()
	p.gate.Lock()
	p.shut = true
	p.gate.Unlock()
	stopRuns(errShutdown)
	p.wg.Wait()
	p.link.flush()
	stopLinks()
	<-linked
	<-renewed
	return nil
}

// startRun makes a run and works off its queue. before is the run of the same id whose process may still live.
func (p *Proxy) startRun(id string, before *run) *run {
	r := newRun(p.ctx, p.starter, p.runs.full, id, before)
	p.wg.Go(r.work)
	return r
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339Nano) }
