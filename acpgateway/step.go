package acpgateway

import (
	"slices"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/fromacp"
)

// step translates what waits, then looks at the time.
func (r *turn) step() []bridge.Output {
	frames, full := r.t.take()
	out := r.first
	r.first = nil
	if r.hasParted() && r.t.tr != nil {
		r.t.tr.Parted()
	}
	var at mark
	for _, f := range frames {
		if !r.known(f) {
			out = r.take(out, f)
		}
		at = mark{epoch: r.t.p.epoch(), seq: f.after(at.seq), at: f.at}
		if r.phase == ended {
			// What comes after the end is for the next Run.
			r.t.putBack(f, frames)
			break
		}
	}
	if r.phase == waiting && !r.t.stopping() && !r.wasStopped() {
		out = r.begin(out)
	}
	if r.phase != ended {
		out = r.due(out, full)
	}
	if slices.ContainsFunc(out, func(o fromacp.Out) bool { return o.Question != nil }) {
		out = r.t.tr.SayArguments(out) // the Run may end at any moment, and with it what is open
	}
	if at.at > 0 {
		r.last = at
	}
	return r.outputs(out, at.at > 0)
}

// after is the number that is reached with a frame. Those of a proxy that was restarted begin
// anew.
func (f frame) after(seq int64) int64 {
	if _, ok := f.Frame.(*restarted); ok {
		return 0
	}
	return max(seq, f.seq)
}

// known says that the log has a frame already, from before a restart.
func (r *turn) known(f frame) bool {
	return f.seq > 0 && f.seq <= r.skip.seq && r.skip.epoch == r.t.p.epoch()
}

// putBack returns the frames after one to the head of the queue.
func (t *tunnel) putBack(last frame, frames []frame) {
	for i, f := range frames {
		if f.at == last.at {
			rest := frames[i+1:]
			t.mu.Lock()
			t.queue = append(append([]frame(nil), rest...), t.queue...)
			for _, f := range slices.Backward(rest) {
				t.bytes += f.size
				if f.seq > 0 {
					t.read = f.seq - 1
				}
			}
			t.mu.Unlock()
			return
		}
	}
}

// take translates one frame.
func (r *turn) take(out []fromacp.Out, f frame) []fromacp.Out {
	r.heard = time.Now()
	r.speaks(f.Frame)
	r.worded = r.worded || !tellsState(f.Frame)
	if r.shows(f.Frame) {
		r.lived, r.silent = r.heard, time.Time{}
	}
	switch m := f.Frame.(type) {
	case *acp.ACPUpdate:
		return r.update(out, m)
	case *acp.ProxyUpdate:
		return r.t.tr.ProxyUpdate(out, m.Content)
	case *acp.Opened:
		return r.opened(out, m)
	case *acp.PromptResult:
		return r.result(out, m)
	case *acp.Exit:
		r.exit, r.exitAt = m, time.Now()
		return r.withdraw(out)
	case *acp.Closed: // acp_exit tells more, if it comes
		if r.exit == nil {
			r.exit, r.exitAt = &acp.Exit{RunID: m.RunID}, time.Now()
		}
		return r.withdraw(out)
	case *acp.BranchCreated:
		return r.t.tr.ProxyUpdate(out, mustJSON(struct {
			Type   string `json:"type"`
			Branch string `json:"branch"`
		}{m.Type(), m.Branch}))
	case *restarted:
		if f.at > r.from && (r.phase == opening || r.following() != "") {
			return r.fail(r.withdraw(out), restartedCause(), unwanted)
		}
	case *gap:
		if r.phase <= opening {
			if r.phase == opening {
				r.open() // the answer may be what was lost
			}
			return out
		}
		return append(out, fromacp.Out{Event: &agui.Custom{Name: "acp.gap", Value: mustJSON(map[string]string{
			"reason": "The link to the agent's proxy was cut. What the agent said meanwhile is lost.",
		})}})
	}
	return out
}

// shows says whether a frame shows that the agent still has the prompt. What a proxy says of
// itself does not.
func (r *turn) shows(f acp.Frame) bool {
	switch m := f.(type) {
	case *acp.ACPUpdate:
		follow := r.following()
		return follow == "" || m.PromptID == nil || *m.PromptID == follow
	case *acp.ProxyUpdate:
		s, err := acp.DecodeSignal(m.Content)
		return err == nil && acp.Asks(s)
	}
	return false
}

// update translates one session/update. Of a prompt that was cancelled only the state counts.
func (r *turn) update(out []fromacp.Out, m *acp.ACPUpdate) []fromacp.Out {
	tr := r.t.tr
	if m.SessionID != nil {
		if known := tr.SessionID(); known != "" && known != *m.SessionID {
			tr.Live() // a new session: it has loaded nothing
		}
		tr.Session(*m.SessionID)
	}
	if m.PromptID != nil {
		if r.t.isDropped(*m.PromptID) && !stateLike(m.Update) {
			return out
		}
		if !r.t.hasEnded(*m.PromptID) { // its result may still wait, which is followed then
			r.followed(*m.PromptID)
		}
	}
	tr.Replay(m.Replay)
	out = tr.Update(out, m.Update)
	if tr.Unsaid() {
		r.calling = r.heard
	}
	return out
}

// tellsState says whether a frame is of the session's state alone.
func tellsState(f acp.Frame) bool {
	m, ok := f.(*acp.ACPUpdate)
	return ok && stateLike(m.Update)
}

func stateLike(raw []byte) bool {
	switch acp.ReadUpdate(raw).Variant {
	case acp.AvailableCommands, acp.CurrentMode, acp.ConfigOptions, acp.SessionInfo, acp.Usage, acp.SessionCreated, acp.SessionState:
		return true
	}
	return false
}

func (t *tunnel) isDropped(prompt string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped.has(prompt)
}

func (t *tunnel) hasEnded(prompt string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.results.has(prompt)
}

// opened sends the prompt that waited for it.
func (r *turn) opened(out []fromacp.Out, m *acp.Opened) []fromacp.Out {
	switch {
	case r.phase != opening:
		return out
	case !m.OK:
		return r.fail(out, fromacp.Cause{Error: m.Error}, unwanted)
	}
	r.exit = nil // of the agent before this one
	return r.prompt(out)
}

// result ends the Turn when it is its prompt's. One of an earlier prompt ends nothing, and a
// second one of the same is unexpected.
func (r *turn) result(out []fromacp.Out, m *acp.PromptResult) []fromacp.Out {
	r.followed(m.PromptID)
	if m.PromptID != r.following() || r.phase <= opening {
		return out
	}
	r.phase = ended
	if !m.OK {
		return r.t.tr.Failed(r.withdraw(out), r.cause(fromacp.Cause{Error: m.Error}))
	}
	return r.t.tr.PromptEnd(r.withdraw(out), word(m.StopReason), m.Usage)
}

// cause adds how the agent's process ended, if it did.
func (r *turn) cause(c fromacp.Cause) fromacp.Cause {
	if r.exit != nil {
		c.ExitCode, c.Signal = r.exit.Code, word(r.exit.Signal)
	}
	return c
}

// withdraw takes back what the agent asked: it is gone, or has ended its prompt.
func (r *turn) withdraw(out []fromacp.Out) []fromacp.Out {
	for _, key := range r.t.allWithdrawn() {
		out = append(out, fromacp.Out{Withdrawn: key})
	}
	return out
}

// fail ends the Turn, and says what becomes of its prompt.
func (r *turn) fail(out []fromacp.Out, c fromacp.Cause, f fate) []fromacp.Out {
	r.phase = ended
	if f == left {
		r.t.leave(r.following())
		r.t.declineAll() // nobody is asked any more; the agent goes on when the link is back
	} else {
		r.t.cancel(r.following())
	}
	return r.t.tr.Failed(out, r.cause(c))
}

// outputs is the translation in the bridge's words, with the position it goes up to. What comes
// of no frame, such as arguments that are told because no more came of them, has the newest: with
// an older one a restart would tell it again.
func (r *turn) outputs(outs []fromacp.Out, read bool) []bridge.Output {
	list := make([]bridge.Output, 0, len(outs)+1)
	for _, o := range outs {
		switch {
		case o.Event != nil:
			list = append(list, bridge.Output{Event: o.Event})
		case o.Question != nil:
			r.pauseClock()
			list = append(list, bridge.Output{Question: r.t.asked(o.Question)})
		case o.Withdrawn != "":
			if key, ok := r.key(o.Withdrawn); ok {
				r.resumeClock()
				list = append(list, bridge.Output{Withdrawn: key})
			}
		case o.End != nil:
			list = append(list, bridge.Output{End: endOf(o.End)})
		}
	}
	if (read || len(list) > 0 && r.last != mark{}) && !r.t.tr.Holding() { // what is held back is in no event yet
		if len(list) == 0 {
			list = append(list, bridge.Output{})
		}
		m := r.last.opened(r.call.TurnID, r.t.tr, r.t.g.cfg.Hash.Filter)
		m.of = r.t.markOwner()
		list[len(list)-1].Mark = m.String()
	}
	return list
}

// key is the key of a Question, from the agent's id of it or itself.
func (r *turn) key(name string) (string, bool) {
	if _, ok := parseKey(name); ok {
		return name, true
	}
	return r.t.withdrawn(acp.RequestID(name))
}

func endOf(e *fromacp.End) *bridge.End {
	end := &bridge.End{Usage: e.Usage, Result: e.Result, Pending: []string{}}
	if e.Failure != nil {
		end.Failure = &bridge.Failure{Code: e.Failure.Code, Message: e.Failure.Message}
	}
	return end
}
