package acpgateway

import (
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// activity is when a Turn's agent last showed signs of life, of each kind. The Turn's goroutine alone uses it.
//
// An agent that sends nothing at all, such as claude with a key that is refused, looks like one that thinks for as long
// as a prompt may take. Its silence has a limit of its own, and the chat shows it early. While a tool runs or a person is
// asked, the agent need not send anything.
type activity struct {
	lastFrame time.Time // of the agent or its proxy
	lastProof time.Time // a frame showed that the agent has the prompt
	lastSpoke time.Time // the agent sent something of its own
	sentAt    time.Time // the prompt was sent
	silent    time.Time // since the link is back, or the Turn was resumed, nothing has come; zero once something has
	calling   time.Time // an update of a tool call came
	spokeText bool      // more came than the session's state
	noticed   bool      // the chat shows the silence
	console   string    // the newest line of the agent's console
}

// silenceNotice is the silence after which the chat shows it.
const silenceNotice = 30 * time.Second

// note notes a frame of a Turn that follows a prompt.
// A status report of the proxy every minute must not hide that the agent is stuck, so the kinds of signs are kept
// apart.
func (act *activity) note(f frame, follow string) {
	act.lastFrame = time.Now()
	act.spokeText = act.spokeText || !f.isStateOnly()
	if f.provesAlive(follow) {
		act.lastProof, act.silent = act.lastFrame, time.Time{}
	}
	if text, ok := f.signal.(*wire.Text); ok {
		act.console = text.Text
	}
	if f.isAgents() {
		act.lastSpoke, act.noticed = act.lastFrame, false
	}
}

// isAgents reports whether the agent itself sent a frame. A proxy's reports of it, and lists that agents send unasked,
// do not count.
func (f frame) isAgents() bool {
	if f.update != nil {
		return !f.isStateOnly() || f.update.Variant == wire.Usage
	}
	return f.signal != nil && wire.Asks(f.signal)
}

// provesAlive reports whether a frame shows that the agent still has the prompt. A proxy's reports of itself do not.
func (f frame) provesAlive(follow string) bool {
	if m, ok := f.Frame.(*wire.ACPUpdate); ok {
		return follow == "" || m.PromptID == nil || *m.PromptID == follow
	}
	return f.signal != nil && wire.Asks(f.signal)
}

// notice shows in the chat, once in a silence, that the agent is silent.
func (act *activity) notice(limit time.Duration) translate.Out {
	act.noticed = true
	return translate.Out{Event: &agui.Custom{Name: "acp.silent", Value: mustJSON(struct {
		Seconds int    `json:"seconds"`
		Limit   int    `json:"limitSeconds"`
		Console string `json:"console,omitempty"` // the newest line of the agent's or its proxy's
	}{int(silenceNotice / time.Second), int(limit / time.Second), act.console})}}
}

// processEnd is how and when the agent's process ended during a Turn; the zero value while it has not. The proxy reports
// it by acp_exit, with code and signal, or by acp_closed, or by both in either order.
type processEnd struct {
	exit wire.Exit
	at   time.Time
}

// closed notes an end of which no more is known, unless acp_exit has come.
func (pe *processEnd) closed() {
	if pe.at.IsZero() {
		*pe = processEnd{at: time.Now()}
	}
}

// explains adds to a failure's cause how the process ended.
func (pe *processEnd) explains(cause translate.Cause) translate.Cause {
	if !pe.at.IsZero() {
		cause.ExitCode, cause.Signal = pe.exit.Code, stringOf(pe.exit.Signal)
	}
	return cause
}
