package proxy

import (
	"context"

	"aqueduct/acpgateway/acp"
)

// handle takes one message of the gateway. Opens and prompts wait in their run's queue; all
// else goes past it.
func (p *Proxy) handle(frame acp.Frame) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return
	}
	switch f := frame.(type) {
	case *acp.Open:
		p.open(f)
	case *acp.PromptSend:
		p.prompt(f)
	case *acp.Close:
		p.close(f.RunID)
	case *acp.SessionPermission:
		p.settle(f)
	case *acp.SessionElicitation:
		p.elicited(f)
	case *acp.SessionCancel:
		p.session(f.RunID, f.ControlID, func(_ context.Context, r *run) error { return r.cancel(f.SessionID) })
	case *acp.SessionSetMode:
		p.session(f.RunID, f.ControlID, func(ctx context.Context, r *run) error { return r.setMode(ctx, f) })
	case *acp.SessionSetModel:
		p.session(f.RunID, f.ControlID, func(ctx context.Context, r *run) error { return r.setModel(ctx, f) })
	case *acp.SessionSetConfigOption:
		p.session(f.RunID, f.ControlID, func(ctx context.Context, r *run) error { return r.setOption(ctx, f) })
	case *acp.SandboxControl:
		// What begins from now on is not the gateway's list to decide over.
		here := p.workspaceIDs()
		p.control(func(ctx context.Context) { p.sandbox(ctx, f, here) }, func() { p.sandboxResult(f, outcome{err: errBusy}) })
	default:
		p.log.Warn("a message of the gateway is unknown", "type", frame.Type())
	}
}

// control runs work on a goroutine of the proxy, or refuses when too much is under way.
func (p *Proxy) control(work func(context.Context), refuse func()) {
	select {
	case p.slots <- struct{}{}:
	default:
		refuse()
		return
	}
	p.wg.Go(func() {
		defer func() { <-p.slots }()
		work(p.ctx)
	})
}

// session runs a control of a session and tells how it went.
func (p *Proxy) session(runID, controlID string, work func(context.Context, *run) error) {
	tell := func(err error) {
		res := &acp.SessionControlResult{RunID: runID, ControlID: controlID, OK: err == nil}
		if err != nil {
			res.Error = asText(err)
		}
		p.send(runID, res)
	}
	r := p.known(runID)
	if r == nil {
		tell(errNoAgent)
		return
	}
	p.control(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, controlTimeout)
		defer cancel()
		tell(work(ctx, r))
	}, func() { tell(errBusy) })
}

func (p *Proxy) open(f *acp.Open) {
	if err := checkRunID(f.RunID); err != nil {
		p.send(f.RunID, &acp.Opened{RunID: f.RunID, Error: asText(err)})
		return
	}
	r := p.run(f.RunID)
	fail := func(err error) { p.send(f.RunID, &acp.Opened{RunID: f.RunID, Error: asText(err)}) }
	r.enqueue(func(ctx context.Context) {
		a, err := r.ensure(ctx, start{cwd: f.Cwd, instance: f.InstanceName, ttl: f.KeepaliveTTLSeconds, init: f.Init})
		if err != nil {
			r.text(acp.PrefixError + err.Error())
			fail(err)
			return
		}
		p.send(f.RunID, &acp.Opened{RunID: f.RunID, OK: true, Agent: a.raw})
	}, fail)
}

// close ends a run. It is out at once: an acp_open right behind makes a new one, which begins
// when this one's end has been told.
func (p *Proxy) close(runID string) {
	tell := func() { p.send(runID, &acp.Closed{RunID: runID, OK: true}) }
	r := p.known(runID)
	if r == nil || !p.detach(r) {
		tell()
		return
	}
	p.wg.Go(func() { p.bury(r, tell) })
}

func asText(err error) string { return "Error: " + err.Error() }
