package acpgateway

import (
	"slices"
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// step translates what waits, then looks at the time.
//
// The order matters. Frames come before the clocks, so that a result that waits in the queue wins over a timeout that
// passed while it waited. What was read is named in the last Output's cursor, after everything that was made of it: a
// crash before the commit reads it again, one after it does not.
func (t *turn) process() []bridge.Output {
	frames, full := t.channel.queue.take()
	out := t.first
	t.first = nil
	if t.course.takeRunEnded() && t.channel.tr != nil {
		t.channel.tr.RunEnded()
	}
	var at mark
	for _, f := range frames {
		if !t.skip.covers(f, t.channel.p.offered().Epoch) {
			out = t.processFrame(out, f)
		}
		at = mark{epoch: t.channel.p.offered().Epoch, seq: f.after(at.seq), at: f.at}
		if t.phase == ended {
			// What comes after the end is for the next Run.
			t.channel.queue.putBack(f, frames)
			break
		}
	}
	// An agent that still ends a cancelled prompt would take the new one into it, or lose it with its end.
	if t.phase == waiting && !t.channel.stopping() && !t.course.isStopped() {
		out = t.begin(out)
	}
	if t.phase != ended {
		out = t.applyTimeouts(out, full)
	}
	if slices.ContainsFunc(out, func(o translate.Out) bool { return o.Question != nil }) {
		out = t.channel.tr.EmitArguments(out) // the Run may end at any moment, and with it what is open
	}
	if at.at > 0 {
		t.last = at
	}
	return t.outputs(out, at.at > 0)
}

// take translates one frame.
func (t *turn) processFrame(out []translate.Out, f frame) []translate.Out {
	t.activity.note(f, t.course.following())
	switch m := f.Frame.(type) {
	case *wire.ACPUpdate:
		return t.update(out, m, f)
	case *wire.ProxyUpdate:
		return t.channel.tr.ProxySignal(out, f.signal, m.Content)
	case *wire.Opened:
		return t.opened(out, m)
	case *wire.PromptResult:
		return t.result(out, m)
	case *wire.Exit:
		t.ending = processEnd{*m, time.Now()}
		return t.cancelQuestions(out)
	case *wire.Closed: // acp_exit contains more, if it comes
		t.ending.closed()
		return t.cancelQuestions(out)
	case *wire.BranchCreated:
		return t.channel.tr.ProxyUpdate(out, mustJSON(struct {
			Type   string `json:"type"`
			Branch string `json:"branch"`
		}{m.Type(), m.Branch}))
	case *restarted:
		if f.at > t.from && (t.phase == opening || t.course.following() != "") {
			return t.fail(t.cancelQuestions(out), restartedCause(), cancelled)
		}
	case *gap:
		if t.phase <= opening {
			if t.phase == opening {
				t.channel.p.send(t.channel.id, openFrame(t.channel, t.call)) // the answer may be what was lost
			}
			return out
		}
		return append(out, translate.Out{Event: &agui.Custom{Name: "acp.gap", Value: mustJSON(map[string]string{
			"reason": "The link to the agent's proxy was cut. What the agent said meanwhile is lost.",
		})}})
	}
	return out
}

// update translates one session/update. Of a prompt that was cancelled only the state counts.
// An update that names a prompt shows an unprompted Turn which result ends it.
func (t *turn) update(out []translate.Out, m *wire.ACPUpdate, f frame) []translate.Out {
	tr := t.channel.tr
	if m.SessionID != nil {
		if known := tr.SessionID(); known != "" && known != *m.SessionID {
			tr.Live() // a new session: it has loaded nothing
		}
		tr.Session(*m.SessionID)
	}
	if m.PromptID != nil {
		if t.channel.prompts.isDropped(*m.PromptID) && !f.isStateOnly() {
			return out
		}
		if !t.channel.prompts.hasEnded(*m.PromptID) { // its result may still wait, which is followed then
			t.course.follow(*m.PromptID)
		}
	}
	tr.Replay(m.Replay)
	out = tr.ReadUpdate(out, *f.update)
	if tr.ArgumentsPending() {
		t.activity.calling = t.activity.lastFrame
	}
	return out
}

// isStateOnly reports whether a frame is of the session's state alone.
func (f frame) isStateOnly() bool {
	if f.update == nil {
		return false
	}
	switch f.update.Variant {
	case wire.AvailableCommands, wire.CurrentMode, wire.ConfigOptions, wire.SessionInfo, wire.Usage, wire.SessionCreated, wire.SessionState:
		return true
	}
	return false
}

// ask gives a Question of the agent's the bridge's form, under a key that is its own for ever. A proxy that numbers its
// frames keeps the agent's ids apart; else the link's start and the count of the agent's processes do.
func (t *turn) ask(q *translate.Question) *approval.Request {
	c := t.channel
	key := keyOf(q)
	if key.Sender = c.p.offered().Epoch; !c.p.offered().Seq {
		key.Sender, key.Life = c.g.epoch, c.agent.generation()
	}
	q.UpstreamID, q.Folder = key.String(), folderAt(c.p, c.agent.name(), c.id)
	c.permissions.add(key, q.Fingerprint(c.g.cfg.Hash))
	return &q.Request
}

// begin opens the agent if need be, and sends the prompt.
// A Turn whose agent runs sends its prompt at once.
func (t *turn) begin(out []translate.Out) []translate.Out {
	fresh := !t.channel.agent.isRunning()
	readyTranslator(t.channel, t.call, fresh || t.call.Branched)
	if !fresh {
		return t.prompt(out)
	}
	t.phase, t.opensAt = opening, time.Now()
	t.channel.p.send(t.channel.id, openFrame(t.channel, t.call))
	return out
}

// prompt sends the user's words.
//
// Everything that may be read about the prompt is set before it is sent: its result can arrive before send returns.
func (t *turn) prompt(out []translate.Out) []translate.Out {
	announced, session, primed := t.channel.agent.known()
	caps := t.channel.config().PromptCapabilities
	if announced != nil {
		caps = *announced
	}
	blocks, notices := blocksOf(t.call.Prompt, caps)
	out = append(out, notices...)
	if len(blocks) == 0 {
		return t.fail(out, translate.Cause{Code: "agent_error", Message: "Nothing of this message is of a kind that the agent takes."}, cancelled)
	}
	cfg, id := t.channel.config(), t.course.following()
	context := ""
	if session == "" || !primed { // an agent that is new may have to begin the session anew
		context = contextOf(t.call, cfg)
	}
	t.phase, t.activity.lastProof = prompting, time.Now() // what was cut before did not cut this off
	t.channel.prompts.add(id)
	t.activity.sentAt = time.Now()
	t.clock.start()
	t.channel.p.send(t.channel.id, &wire.PromptSend{
		RunID: t.channel.id, PromptID: id, Cwd: cfg.Cwd, InstanceName: t.channel.agent.name(), KeepaliveTTLSeconds: cfg.keepalive(),
		SessionID: session, Context: context, Prompt: blocks, Traceparent: t.call.Traceparent, Tracestate: t.call.Tracestate,
		TimeoutMS: t.channel.g.cfg.Limits.Prompt.Milliseconds(), Init: initOf(t.channel, t.call, cfg),
	})
	return out
}

// opened sends the prompt that waited for it.
// An answer in another phase is to an acp_open that was sent again after a cut.
func (t *turn) opened(out []translate.Out, m *wire.Opened) []translate.Out {
	switch {
	case t.phase != opening:
		return out
	case !m.OK:
		return t.fail(out, translate.Cause{Error: m.Error}, cancelled)
	}
	t.ending = processEnd{} // it was of the agent before this one
	t.channel.tr.Opened()
	return t.prompt(out)
}

// result ends the Turn when it is its prompt's. One of an earlier prompt ends nothing, and a
// second one of the same is unexpected.
func (t *turn) result(out []translate.Out, m *wire.PromptResult) []translate.Out {
	t.course.follow(m.PromptID)
	if m.PromptID != t.course.following() || t.phase <= opening {
		return out
	}
	t.phase = ended
	if !m.OK {
		return t.channel.tr.Failed(t.cancelQuestions(out), t.ending.explains(translate.Cause{Error: m.Error}))
	}
	return t.channel.tr.PromptEnd(t.cancelQuestions(out), stringOf(m.StopReason), m.Usage)
}

// outputs is the translation in the bridge's words, with the position it goes up to. What comes
// of no frame, such as arguments that are emitted because no more came of them, has the newest: with
// an older one a restart would emit it again.
func (t *turn) outputs(outs []translate.Out, read bool) []bridge.Output {
	list := make([]bridge.Output, 0, len(outs)+1)
	for _, o := range outs {
		switch {
		case o.Event != nil:
			list = append(list, bridge.Output{Event: o.Event})
		case o.Question != nil:
			t.clock.pause()
			list = append(list, bridge.Output{Question: t.ask(o.Question)})
		case o.Withdrawn != "":
			if key, ok := t.channel.permissions.named(o.Withdrawn); ok {
				t.resumeClock()
				list = append(list, bridge.Output{Withdrawn: key})
			}
		case o.End != nil:
			list = append(list, bridge.Output{End: endOf(o.End)})
		}
	}
	if (read || len(list) > 0 && t.last != mark{}) && !t.channel.tr.Holding() { // what is held back is in no event yet
		if len(list) == 0 {
			list = append(list, bridge.Output{})
		}
		m := t.last.opened(t.call.TurnID, t.channel.tr, t.channel.g.cfg.Hash.Filter)
		m.of = markOwner(t.channel)
		list[len(list)-1].Cursor = m.String()
	}
	return list
}

func endOf(e *translate.End) *bridge.End {
	end := &bridge.End{Usage: e.Usage, Result: e.Result, Pending: []string{}}
	if e.Failure != nil {
		end.Failure = fault.New(e.Failure.Code, e.Failure.Message)
	}
	return end
}
