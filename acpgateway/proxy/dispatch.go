package proxy

import (
	"context"
	"errors"
	"fmt"

	"aqueduct/acpgateway/wire"
)

// handle takes one message of the gateway. Opens and prompts wait in their run's queue; all
// else goes past it.
//
// It is called by the link's reader and returns at once. The gate lets Run end only between two messages: none is half
// begun when the runs are stopped.
func (p *Proxy) handle(frame wire.Frame) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return
	}
	switch f := frame.(type) {
	case *wire.Open:
		p.open(f)
	case *wire.PromptSend:
		p.prompt(f)
	case *wire.Close:
		p.close(f.RunID)
	case *wire.SessionPermission:
		p.settle(f)
	case *wire.SessionElicitation:
		p.elicited(f)
	case *wire.SessionCancel:
		p.session(f.RunID, f.ControlID, func(_ context.Context, r *run) error { return r.cancel(f.SessionID) })
	case *wire.SessionSetMode:
		p.setting(f.RunID, f.ControlID, func(ctx context.Context, ss *sessions) error { return ss.setMode(ctx, f) })
	case *wire.SessionSetModel:
		p.setting(f.RunID, f.ControlID, func(ctx context.Context, ss *sessions) error { return ss.setModel(ctx, f) })
	case *wire.SessionSetConfigOption:
		p.setting(f.RunID, f.ControlID, func(ctx context.Context, ss *sessions) error { return ss.setOption(ctx, f) })
	case *wire.SandboxControl:
		// What begins from now on is not the gateway's list to decide over.
		here := p.sandboxes.workspaceIDs()
		p.control(func(ctx context.Context) { p.sandboxes.handle(ctx, f, here) }, func() { p.sandboxes.result(f, outcome{err: errBusy}) })
	default:
		p.log.Warn("a message of the gateway is unknown", "type", frame.Type())
	}
}

// control runs work on a goroutine of the proxy, or refuses when too much is under way.
// The number is bounded, because a gateway may send controls faster than agents answer them.
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

// session runs a control of a session and sends its result.
// The result is a numbered frame: it survives a cut link, and a gateway that waits by the control's id gets it late
// rather than never.
func (p *Proxy) session(runID, controlID string, work func(context.Context, *run) error) {
	tell := func(err error) {
		res := &wire.SessionControlResult{RunID: runID, ControlID: controlID, OK: err == nil}
		if err != nil {
			res.Error = asText(err)
		}
		p.link.send(runID, res)
	}
	r := p.runs.find(runID)
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

// setting is a control that the run's agent must live for.
func (p *Proxy) setting(runID, controlID string, set func(context.Context, *sessions) error) {
	p.session(runID, controlID, func(ctx context.Context, r *run) error {
		a, err := r.living()
		if err != nil {
			return err
		}
		return set(ctx, a.sessions)
	})
}

// open starts a run's agent before its first prompt, so that a person does not wait for it then. It goes through the
// run's queue like a prompt. An agent that runs already is an answer as well: the gateway may repeat an open whose
// answer it lost.
func (p *Proxy) open(f *wire.Open) {
	if err := checkRunID(f.RunID); err != nil {
		p.link.send(f.RunID, &wire.Opened{RunID: f.RunID, Error: asText(err)})
		return
	}
	r := p.runs.get(f.RunID)
	fail := func(err error) { p.link.send(f.RunID, &wire.Opened{RunID: f.RunID, Error: asText(err)}) }
	r.enqueue(func(ctx context.Context) {
		a, err := r.ensure(ctx, start{cwd: f.Cwd, instance: f.InstanceName, ttl: f.KeepaliveTTLSeconds, init: f.Init})
		if err != nil {
			r.report.text(wire.PrefixError + err.Error())
			fail(err)
			return
		}
		p.link.send(f.RunID, &wire.Opened{RunID: f.RunID, OK: true, Agent: a.raw})
	}, fail)
}

// close ends a run. It is out at once: an acp_open right behind makes a new one, which begins
// when this one's end has been reported.
// Its answer comes when the process is gone, so that a gateway which waits for it can rely on the workspace being
// still.
func (p *Proxy) close(runID string) {
	tell := func() { p.link.send(runID, &wire.Closed{RunID: runID, OK: true}) }
	r := p.runs.find(runID)
	if r == nil || !p.runs.detach(r) {
		tell()
		return
	}
	p.wg.Go(func() { p.runs.reportEnd(r, tell) })
}

// asText is an error as the contract has it in its frames: a text that begins with "Error: ".
func asText(err error) string { return "Error: " + err.Error() }

// prompt queues a prompt. One whose id is known is not given to the agent again: a gateway
// that lost its link cannot know whether it arrived.
// The results of the last prompts are kept for the same reason: the gateway that sends one again gets the result
// again.
func (p *Proxy) prompt(f *wire.PromptSend) {
	if err := errors.Join(checkRunID(f.RunID), checkPrompt(f)); err != nil {
		p.link.send(f.RunID, &wire.PromptResult{RunID: f.RunID, PromptID: f.PromptID, Error: asText(err)})
		return
	}
	// One that is refused above is not remembered: sent again, it is refused again.
	r := p.runs.get(f.RunID)
	one := &prompt{id: f.PromptID}
	switch result, known := r.prompts.admit(one); {
	case result != nil:
		p.link.send(f.RunID, result)
		return
	case known:
		return
	}
	// It is recorded before it is sent: a repetition that comes in between finds the result.
	finish := func(result *wire.PromptResult, err error) {
		if err != nil {
			r.report.text(wire.PrefixError + err.Error())
			result.OK, result.Error = false, asText(err)
		}
		r.prompts.finish(one, result)
		p.link.send(r.id, result)
	}
	r.enqueue(func(ctx context.Context) {
		r.prompts.begin(one)
		result := &wire.PromptResult{RunID: r.id, PromptID: f.PromptID}
		finish(result, r.prompt(ctx, f, one, result))
	}, func(err error) { finish(&wire.PromptResult{RunID: r.id, PromptID: f.PromptID}, err) })
}

// asked finds the open request that an answer names; nil when there is none.
func (p *Proxy) asked(runID, session string, id wire.RequestID) (*ask, *run) {
	r := p.runs.find(runID)
	if r == nil {
		p.log.Warn("an answer for a run that is not here", "run", runID)
		return nil, nil
	}
	a, err := r.living()
	if err != nil {
		return nil, nil
	}
	one := a.asks.find(id)
	if one == nil || session != "" && session != one.session {
		p.log.Info("an answer to a question that is not open", "run", runID, "request", id)
		return nil, nil
	}
	return one, r
}

// settle takes the gateway's answer. One that does not fit leaves the question open and is
// reported: guessing an option could allow what no person allowed.
// The session is compared too, since an answer that was meant for another session could fit by its number.
func (p *Proxy) settle(f *wire.SessionPermission) {
	one, r := p.asked(f.RunID, f.SessionID, f.RequestID)
	switch {
	case one == nil:
	case f.Outcome == wire.OutcomeCancelled:
		one.settle(one.cancelled)
	case f.Outcome == wire.OutcomeSelected && f.OptionID != nil && one.offers(*f.OptionID):
		one.settle(wire.PermissionResult{Outcome: wire.PermissionOutcome{Outcome: wire.OutcomeSelected, OptionID: *f.OptionID}})
	default:
		r.report.text(wire.PrefixError + fmt.Sprintf("permission %s: the answer is none of the options; it stays open", one.id))
	}
}

// elicited takes the gateway's answer to a request for input.
func (p *Proxy) elicited(f *wire.SessionElicitation) {
	one, r := p.asked(f.RunID, f.SessionID, f.RequestID)
	if one == nil {
		return
	}
	switch f.Action {
	case wire.ElicitAccept, wire.ElicitDecline, wire.ElicitCancel:
		if _, form := one.cancelled.(wire.ElicitationResult); form {
			one.settle(wire.ElicitationResult{Action: f.Action, Content: f.Content})
			return
		}
	}
	r.report.text(wire.PrefixError + "request " + string(one.id) + ": the answer does not fit; it stays open")
}
