package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
)

var (
	errBusy      = errors.New("too much is waiting")
	errNoAgent   = errors.New("no agent is running for this run")
	errRunClosed = errors.New("run closed")
)

// run is one run_id: a queue of opens and prompts, and at most one agent process.
type run struct {
	p       *Proxy
	id      string
	created time.Time
	before  *run // closed under the same id; its process must be gone first
	jobs    chan job
	ctx     context.Context
	stop    context.CancelCauseFunc
	done    chan struct{}
	gone    chan struct{} // closed when it was taken out and its end has been told

	mu       sync.Mutex
	agent    *agent // nil while none lives
	instance string
	init     *acp.Init // the last one, for an agent that has to be started again
	cwd      string
	status   string
	lastErr  string
	active   *prompt
	waiting  []*prompt
	results  []*acp.PromptResult // the last ones, for a prompt that is sent twice
	ttl      time.Duration
	idle     *time.Timer
}

// job is one entry of the queue; fail tells that it was not taken up.
type job struct {
	do   func(context.Context)
	fail func(error)
}

func newRun(p *Proxy, id string, before *run) *run {
	ctx, stop := context.WithCancelCause(p.ctx)
	return &run{
		p: p, id: id, created: time.Now(), before: before, jobs: make(chan job, queued), ctx: ctx, stop: stop,
		done: make(chan struct{}), gone: make(chan struct{}), instance: "tuixiu-run-" + id, status: "stopped", ttl: keepalive,
	}
}

// work is the run's goroutine.
func (r *run) work() {
	defer close(r.done)
	if r.before != nil {
		<-r.before.gone
		r.before = nil
	}
	for r.ctx.Err() == nil {
		select {
		case j := <-r.jobs:
			r.rest(false)
			j.do(r.ctx)
			r.rest(true)
		case <-r.ctx.Done():
		}
	}
	r.rest(false)
	r.mu.Lock()
	a := r.agent
	r.mu.Unlock()
	if a != nil {
		a.end("closed")
	}
	r.drain()
}

// drain refuses what was queued while the run ended.
func (r *run) drain() {
	for {
		select {
		case j := <-r.jobs:
			j.fail(context.Cause(r.ctx))
		default:
			return
		}
	}
}

func (r *run) enqueue(do func(context.Context), fail func(error)) {
	select {
	case r.jobs <- job{do, fail}:
	default:
		fail(errBusy)
		return
	}
	if r.ctx.Err() != nil { // its goroutine may have drained already
		r.drain()
	}
}

// rest starts the keepalive timer when nothing is under way, and stops it.
func (r *run) rest(resting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle != nil {
		r.idle.Stop()
		r.idle = nil
	}
	if resting && r.agent != nil {
		r.idle = time.AfterFunc(r.ttl, r.expire)
	}
}

// expire ends an agent that nobody used for its keepalive time. It goes through the queue, so
// that it meets no prompt.
func (r *run) expire() {
	r.enqueue(func(context.Context) {
		r.mu.Lock()
		a := r.agent
		r.mu.Unlock()
		if a != nil {
			a.end("keepalive_expired")
		}
	}, func(error) {})
}

// start is what an open or a prompt says about the agent it needs.
type start struct {
	cwd, instance string
	ttl           int
	init          *acp.Init
}

// ensure returns the run's agent, started if need be.
func (r *run) ensure(ctx context.Context, s start) (*agent, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if s.instance != "" {
		r.instance = s.instance
	}
	if s.ttl != 0 {
		r.ttl = time.Duration(min(max(s.ttl, keepaliveLeast), keepaliveMost)) * time.Second
	}
	if s.init != nil {
		r.init = s.init
	}
	if s.cwd != "" {
		r.cwd = s.cwd
	}
	a := r.agent
	s.init, s.cwd = r.init, r.cwd
	r.mu.Unlock()
	if a != nil {
		r.setStatus("running", nil)
		return a, nil
	}
	if r.p.full() {
		return nil, errors.New("as many agents as allowed are running")
	}
	r.setStatus("creating", nil)
	a, err := r.launch(ctx, s)
	if err != nil {
		r.setStatus("error", err)
		return nil, err
	}
	r.setStatus("running", nil)
	return a, nil
}

func (p *Proxy) full() bool {
	if p.cfg.MaxConcurrent <= 0 {
		return false
	}
	n := 0
	for _, r := range p.all() {
		r.mu.Lock()
		if r.agent != nil {
			n++
		}
		r.mu.Unlock()
	}
	return n >= p.cfg.MaxConcurrent
}

// setStatus keeps and tells how the instance is.
func (r *run) setStatus(status string, err error) {
	r.mu.Lock()
	r.status, r.lastErr = status, ""
	s := &acp.InstanceStatus{InstanceName: r.instance, Provider: provider, Status: status, LastSeenAt: stamp()}
	if err != nil {
		text := err.Error()
		r.lastErr, s.LastError = text, &text
	}
	r.mu.Unlock()
	r.signal(s)
}

// signal sends a proxy_update.
func (r *run) signal(s acp.Signal) bool {
	update, err := acp.NewProxyUpdate(r.id, s)
	if err != nil {
		r.p.log.Error("a signal could not be written", "kind", s.Kind(), "err", err)
		return false
	}
	return r.p.send(r.id, update)
}

func (r *run) text(text string) { r.signal(&acp.Text{Text: text}) }

// living lists the runs for register_agent.
func (p *Proxy) living() []acp.RunInfo {
	var infos []acp.RunInfo
	for _, r := range p.all() {
		r.mu.Lock()
		info := acp.RunInfo{RunID: r.id, Running: r.agent != nil}
		if r.active != nil {
			info.SessionID = r.active.session
			info.PromptIDs = append(info.PromptIDs, r.active.id)
		}
		for _, w := range r.waiting {
			info.PromptIDs = append(info.PromptIDs, w.id)
		}
		r.mu.Unlock()
		infos = append(infos, info)
	}
	return infos
}
