package acpgateway

import (
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/bridge/fromacp"
)

// An agent that says nothing at all, such as claude with a key that is refused, would look like one
// that thinks for as long as a prompt may take. Its silence has a limit of its own, and the chat
// hears of it early. A tool that runs and a person who is asked are no silence of the agent's.

// silenceNotice is after how long a silence the chat is told.
const silenceNotice = 30 * time.Second

// speaks notes a sign of life of the agent's. What proxies say for it, and lists that agents send
// unasked, are none.
func (r *turn) speaks(f acp.Frame) {
	switch m := f.(type) {
	case *acp.ACPUpdate:
		if stateLike(m.Update) && acp.ReadUpdate(m.Update).Variant != acp.Usage {
			return
		}
	case *acp.ProxyUpdate:
		s, err := acp.DecodeSignal(m.Content)
		if text, ok := s.(*acp.Text); ok {
			r.console = text.Text
		}
		if err != nil || !acp.Asks(s) {
			return
		}
	default:
		return
	}
	r.spoke, r.noticed = time.Now(), false
}

// silentSince is since when an agent that has the prompt says nothing; zero when it does not have
// to say anything.
func (r *turn) silentSince() time.Time {
	if r.call.Unprompted || r.phase <= opening || r.phase == ended || r.t.asking() || r.t.tr.Working() || r.t.g.cfg.Limits.Silence < 0 {
		return time.Time{}
	}
	if online, _ := r.t.p.status(); !online {
		return time.Time{}
	}
	since := r.began
	r.mu.Lock()
	resumed := r.resumed
	r.mu.Unlock()
	r.t.mu.Lock()
	linked := r.t.linkAt
	r.t.mu.Unlock()
	for _, at := range []time.Time{r.spoke, r.sentAt, resumed, linked} {
		if at.After(since) {
			since = at
		}
	}
	return since
}

// noticeDue: the chat is to hear that the agent says nothing.
func (r *turn) noticeDue() time.Time {
	since := r.silentSince()
	if since.IsZero() || r.noticed || silenceNotice >= r.t.g.cfg.Limits.Silence {
		return time.Time{}
	}
	return since.Add(silenceNotice)
}

func (r *turn) silentDue() time.Time {
	since := r.silentSince()
	if since.IsZero() {
		return time.Time{}
	}
	return since.Add(r.t.g.cfg.Limits.Silence)
}

// notice tells the chat, once in a silence.
func (r *turn) notice(out []fromacp.Out) []fromacp.Out {
	r.noticed = true
	return append(out, fromacp.Out{Event: &agui.Custom{Name: "acp.silent", Value: mustJSON(struct {
		Seconds int    `json:"seconds"`
		Limit   int    `json:"limitSeconds"`
		Console string `json:"console,omitempty"` // the newest line of the agent's or its proxy's
	}{int(silenceNotice / time.Second), int(r.t.g.cfg.Limits.Silence / time.Second), r.console})}})
}

// failSilent ends a Turn whose agent says nothing.
func (r *turn) failSilent(out []fromacp.Out) []fromacp.Out {
	return r.fail(r.withdraw(out), fromacp.Cause{
		Code: CodeSilent, Message: "The agent has said nothing for " + r.t.g.cfg.Limits.Silence.String() +
			". It may wait for a login, or for a model that does not answer: look at its key and its network.",
	}, unwanted)
}
