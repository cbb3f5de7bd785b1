package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/livefeed"
	"aqueduct/store"
)

// stopped is the answer to a prompt that was cancelled.
func (c *conversation) stopped() *wire.PromptResult {
	stop := "cancelled"
	return &wire.PromptResult{RunID: c.run, PromptID: c.prompt, OK: true, SessionID: agentSession, StopReason: &stop}
}

// Words that belong to no prompt are a Run of their own.
func TestAgentSpeaksUnprompted(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		p.send(update(c.run, "", chunk("m", "by the way, ")))
		h.settle()
		p.send(update(c.run, "", chunk("m", "it rains")))
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		// State alone is no Run, but for the mode, which pages show: that must not wait for a prompt.
		p.send(update(c.run, "", `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x"}]}`))
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success")
		watch := h.hub.Subscribe(livefeed.Wanted{In: store.As(h.who)})
		defer watch.Close()
		h.settleNow()
		p.send(update(c.run, "", `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`))
		frames, err := watch.Next(h.t.Context())
		h.must(err)
		if len(frames) == 0 || !strings.Contains(string(frames[0]), `"currentModeId":"plan"`) {
			t.Errorf("/ws/client hears %s", frames)
		}
		h.pass(3 * time.Second)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success", "RUN", "DONE success")
		if state := string(h.session("t1").State); !strings.Contains(state, `"modeId":"plan"`) {
			t.Errorf("the thread's state is %s", state)
		}
		// The same mode again is no news.
		p.send(update(c.run, "", `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`))
		h.pass(10 * time.Second)
		if n := h.count("t1", "RUN_STARTED"); n != 3 {
			t.Errorf("%d Runs", n)
		}
	})
}

// A cancel ends the Run at once. Its agent is sent session_cancel, and what it still sends enters no other Run.
func TestCancel(t *testing.T) {
	perform(t, []script{
		// But for the session's state.
		{name: "late updates", steps: `
			new p1; chat prompts hi; agent says one; settle; chat cancels; ends
			p1 gets session_cancel session_id=S1 control_id!= run_id=$run
			agent obeys; says two; calls/c1 "title":"x","kind":"edit","status":"completed"; mode plan; stops; says three; settle
			chat prompts again; late says four; agent says/m2 new; ends; chat ends
			chat reads RUN | says: one | DONE cancelled | RUN | says: new | DONE success
			chat state {"acp":{"modeId":"plan"}}
			settle; p1 acked; silent; refused unexpected 0`},
		// A permission that it asks for is answered at once, and is shown to no one.
		{name: "late permission", steps: `
			new p1; chat prompts hi; agent says one; settle; chat cancels; ends; p1 gets session_cancel
			agent asks/7 call-1; p1 gets session_permission request_id=7 outcome=cancelled option_id= session_id=S1
			agent stops; settle; chat asked; reads RUN | says: one | DONE cancelled
			p1 silent`},
		// An agent that ignores the cancel is closed after ten seconds; the next prompt gets a new one.
		{name: "ignored", steps: `
			new p1; chat prompts hi; settle
			chat cancels; clock; chat ends; took 0s..1s
			p1 gets session_cancel; gets acp_close; took 10s..12s
			agent exits; closes; settle; chat prompts again; agent says new; ends; chat ends
			chat reads RUN | DONE cancelled | RUN | says: new | DONE success
			pass 1m; p1 silent`},
		// A message sent right after a cancel waits until the agent has ended what was cancelled, or is closed over it.
		{name: "ignored, message behind it", steps: `
			new p1; chat prompts hi; settle; chat cancels; ends; p1 gets session_cancel
			chat posts again; p1 gets acp_close; gets acp_open; agent exits; closes; opens
			p1 gets prompt_send; agent ends; chat ends
			chat reads RUN | DONE cancelled | RUN | DONE success
			pass 1m; p1 silent`},
		{name: "obeyed, message behind it", steps: `
			new p1; chat prompts hi; settle; chat cancels; ends; p1 gets session_cancel
			chat posts again; p1 silent; agent stops
			p1 gets prompt_send; agent ends; chat ends
			chat reads RUN | DONE cancelled | RUN | DONE success
			p1 silent`},
		// A message that waits so may be cancelled too: its prompt is never sent.
		{name: "message behind it is cancelled", steps: `
			new p1; chat prompts hi; settle; chat cancels; ends; p1 gets session_cancel
			chat posts again; settle; chat cancels; ends; agent stops
			chat reads RUN | DONE cancelled | RUN | DONE cancelled
			pass 1m; p1 silent`},
		// While the agent is being opened: no prompt is sent, and the next one is.
		{name: "while opening", steps: `
			new p1; chat posts hi; p1 gets acp_open; chat cancels; ends; p1 silent
			agent opens; settle; chat prompts again; agent ends; chat ends
			chat reads RUN | DONE cancelled | RUN | DONE success
			p1 silent`},
		// While the link is cut: it reaches the agent when the link is back.
		{name: "while the link is cut", steps: `
			new p1; chat prompts hi; agent says one; settle; p1 cuts; chat cancels; ends
			agent says two; pass 2s; p1 links; gets session_cancel; agent stops; settle
			chat reads RUN | says: one | DONE cancelled
			p1 silent`},
		// A control that cancels does what the user's own cancel does: session_cancel, then every open request answered
		// cancelled.
		{name: "by a control, with a question open", steps: `
			old p1; chat prompts hi; agent asks/0 c1; chat ends; settle
			control cancel $run; outcome ok
			p1 gets session_cancel session_id!=; gets session_permission outcome=cancelled
			agent ends; settle`},
	})
}

// An agent whose request is over before it is decided: the Question is cancelled.
func TestQuestionIsTakenBack(t *testing.T) {
	perform(t, []script{
		// permission_cancelled: the Turn goes on.
		{name: "permission_cancelled", steps: `
			new p1; chat prompts hi; agent asks/3 call-1; chat ends
			agent signal {"type":"permission_cancelled","request_id":"3","session_id":"S1"}; settle; chat asked
			agent says never mind; ends; settle
			chat reads RUN | calls execute | calls request_permission | DONE interrupt | RUN | gets {"status":"cancelled"}
			| says: never mind | gets The agent ended without a result. | DONE success
			p1 silent`},
		{name: "the prompt ends", steps: `
			new p1; chat prompts hi; agent asks/3 call-1; chat ends; agent ends; settle; chat asked
			chat reads RUN | calls execute | calls request_permission | DONE interrupt | RUN | gets {"status":"cancelled"}
			| gets The agent ended without a result. | DONE success
			p1 silent`},
		// One cause is shown.
		{name: "the proxy is started anew", steps: `
			new p1; chat prompts hi; agent asks/3 call-1; chat ends; p1 cuts; reborn e2; links; settle; chat asked
			chat reads RUN | calls execute | calls request_permission | DONE interrupt | RUN | gets {"status":"cancelled"}
			| gets The agent failed before this ended. | ERROR agent_proxy_restarted
			p1 silent`},
	})
}
