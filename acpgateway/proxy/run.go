package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
)

var (
	errBusy      = errors.New("too much is waiting")
	errNoAgent   = errors.New("no agent is running for this run")
	errRunClosed = errors.New("run closed")
)

// run is one run_id: a queue of opens and prompts, and at most one agent process.
//
// What concerns the agent's life goes through the queue and so happens one after the other: open, prompt, expire. What
// must not wait behind a prompt (cancel, mode, answers) goes past it (dispatch.go).
type run struct {
	starter *starter
	full    func() bool // no other agent may start
	report  *reporter
	prompts *prompts
	id      string
	created time.Time
	before  *run // closed under the same id; its process must be gone first
	jobs    chan job
	ctx     context.Context
	stop    context.CancelCauseFunc
	done    chan struct{}
	gone    chan struct{} // closed when it was taken out and its end has been reported

	// mu guards all below. The run's goroutine changes it, and inventories, controls and the agent's end look at it
	// or take the agent out.
	mu       sync.Mutex
	agent    *agent // nil while none lives
	instance string
	init     *wire.Init // the last one, for an agent that has to be started again
	cwd      string
	status   string
	lastErr  string
	ttl      time.Duration
	idle     *time.Timer
}

// job is one entry of the queue; fail tells that it was not taken up.
type job struct {
	do   func(context.Context)
	fail func(error)
}

// newRun makes a run without its goroutine; work is that. before is the run of the same id that was closed, if its
// process may still live. Its context is the proxy's: a run outlives connections.
func newRun(ctx context.Context, s *starter, full func() bool, id string, before *run) *run {
	ctx, stop := context.WithCancelCause(ctx)
	ps := &prompts{}
	return &run{
		starter: s, full: full, prompts: ps, report: &reporter{id: id, link: s.link, log: s.cfg.Log, prompts: ps}, id: id, created: time.Now(), before: before, jobs: make(chan job, queued), ctx: ctx, stop: stop,
		done: make(chan struct{}), gone: make(chan struct{}), instance: "tuixiu-run-" + id, status: "stopped", ttl: keepalive,
	}
}

// work is the run's goroutine.
// A run of the same id that was closed is waited for first: two agents in one workspace would work against each other.
func (r *run) work() {
	defer close(r.done)
	if r.before != nil {
		// before is dropped behind it, or all runs that ever had this id would stay in memory.
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

// enqueue adds a job, or fails it at once where as many wait as may: the gateway gets a refusal instead of being held up. do or
// fail is called, never both and never none.
//
// The context is looked at after the send: the run's goroutine may have ended between the two, and nothing would take
// the job.
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

// expire ends an agent that was not used for its keepalive time. It goes through the queue, so
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

// start is what an open or a prompt requires of its agent.
// Empty members mean that what was named before still holds.
type start struct {
	cwd, instance string
	ttl           int
	init          *wire.Init
}

// ensure returns the run's agent, started if need be.
// What a start names is remembered for the next, because a prompt after the agent's end names less than the open did.
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
	if r.full() {
		return nil, errors.New("as many agents as allowed are running")
	}
	r.setStatus("creating", nil)
	a, err := r.starter.launch(ctx, origin{r.ctx, r.id, r.report, r.prompts, r.agentStarted, r.agentEnded}, s)
	if err != nil {
		r.setStatus("error", err)
		return nil, err
	}
	r.setStatus("running", nil)
	return a, nil
}

// setStatus records and reports the status of the instance.
// The text of an error goes to the gateway as it is; the gateway masks it.
func (r *run) setStatus(status string, err error) {
	r.mu.Lock()
	r.status, r.lastErr = status, ""
	s := &wire.InstanceStatus{InstanceName: r.instance, Provider: provider, Status: status, LastSeenAt: stamp()}
	if err != nil {
		text := err.Error()
		r.lastErr, s.LastError = text, &text
	}
	r.mu.Unlock()
	r.report.signal(s)
}

// agentStarted notes the run's agent, before the first frame of it.
func (r *run) agentStarted(a *agent) {
	r.mu.Lock()
	r.agent = a
	instance := r.instance
	r.mu.Unlock()
	r.report.signal(&wire.TransportConnected{InstanceName: instance, At: stamp()})
}

// agentEnded reports the end of the run's agent, after all of its output.
// acp_exit is last, because the gateway ends what waits for the agent by it: the reason and the status have come
// before.
func (r *run) agentEnded(status wire.ExitStatus, reason string) {
	r.mu.Lock()
	r.agent = nil
	instance := r.instance
	r.mu.Unlock()
	r.report.signal(&wire.TransportDisconnected{InstanceName: instance, Code: status.ExitCode, Signal: status.Signal, At: stamp(), Reason: reason})
	r.setStatus("stopped", nil)
	r.report.link.send(r.id, &wire.Exit{RunID: r.id, InstanceName: instance, Code: status.ExitCode, Signal: status.Signal})
}

// living is the agent for what goes past the queue. It may end at any moment after that: a call to one that is gone
// fails with errAgentClosed.
func (r *run) living() (*agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil, errNoAgent
	}
	return r.agent, nil
}

// cancel stops what a session does. A prompt that the agent does not have yet ends before it gets it. The mark comes
// before the look at the agent: a prompt that is sent has an agent, so one that is started in between is not missed.
func (r *run) cancel(session string) error {
	session, marked, sent := r.prompts.cancel(session)
	a, _ := r.living()
	switch {
	case a != nil && session != "" && (!marked || sent):
		a.cancelSession(session)
	case !marked:
		return errNoAgent
	}
	return nil
}
