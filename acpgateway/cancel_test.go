package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/hints"
	"aqueduct/store"
)

// stopped is the answer to a prompt that was cancelled.
func (c *conversation) stopped() *acp.PromptResult {
	stop := "cancelled"
	return &acp.PromptResult{RunID: c.run, PromptID: c.prompt, OK: true, SessionID: agentSession, StopReason: &stop}
}

// What a cancelled prompt still says enters no other Run, but for the session's state.
func TestLateUpdatesOfACancelledPrompt(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one ")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		said := want[*acp.SessionCancel](p)
		if said.SessionID != agentSession || said.ControlID == "" || said.RunID != c.run {
			t.Errorf("%+v", said)
		}
		p.say(&acp.SessionControlResult{RunID: c.run, ControlID: said.ControlID, OK: true})
		c.says("m", "two ")
		c.update(tool("tool_call", "c1", `"title":"x","kind":"edit","status":"completed"`))
		c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`)
		p.say(c.stopped())
		c.says("m", "three ")
		h.settle()
		late := c
		c = p.begin("t1", "again")
		late.says("m", "four ")
		c.says("m2", "new")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: one ", "DONE cancelled", "RUN", "says: new", "DONE success")
		if got := string(h.session("t1").State); got != `{"acp":{"modeId":"plan"}}` {
			t.Errorf("state %s", got)
		}
		h.settle()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent()
		if n := h.refusals()["unexpected"]; n != 0 {
			t.Errorf("%d frames were unexpected", n)
		}
	})
}

// A permission that a cancelled prompt asks for is answered at once, and nobody sees it.
func TestPermissionOfACancelledPrompt(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		want[*acp.SessionCancel](p)
		c.asks("7", "call-1")
		said := want[*acp.SessionPermission](p)
		if said.RequestID != "7" || said.Outcome != "cancelled" || said.OptionID != nil || said.SessionID != agentSession {
			t.Errorf("%+v", said)
		}
		p.say(c.stopped())
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
		h.reads("t1", "RUN", "says: one", "DONE cancelled")
		p.silent()
	})
}

// An agent that ignores the cancel is closed after ten seconds; the next prompt gets a new one.
func TestAgentIgnoresCancel(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		h.cancel("t1")
		began := time.Now()
		c.s.rest()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the Run ended %v after the cancel", took)
		}
		want[*acp.SessionCancel](p)
		want[*acp.Close](p)
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("closed after %v", took)
		}
		p.say(exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
		h.settle()
		c = p.begin("t1", "again")
		c.says("m", "new")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "DONE cancelled", "RUN", "says: new", "DONE success")
		h.pass(time.Minute)
		p.silent()
	})
}

// A message sent right after a cancel waits until the agent has ended what was cancelled, or is
// closed over it.
func TestMessageBehindACancelThatIsIgnored(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		want[*acp.SessionCancel](p)
		s := h.post("t1", "again")
		want[*acp.Close](p)
		want[*acp.Open](p)
		p.say(exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true}, &acp.Opened{RunID: c.run, OK: true})
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: c.run, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t1", "RUN", "DONE cancelled", "RUN", "DONE success")
		h.pass(time.Minute)
		p.silent()
	})
}

// The same with an agent that obeys.
func TestMessageBehindACancel(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		want[*acp.SessionCancel](p)
		s := h.post("t1", "again")
		p.silent()
		p.say(c.stopped())
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: c.run, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t1", "RUN", "DONE cancelled", "RUN", "DONE success")
		p.silent()
	})
}

// A message that waits so may be cancelled too: its prompt is never sent.
func TestCancelBehindACancel(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		want[*acp.SessionCancel](p)
		s := h.post("t1", "again")
		h.settle()
		h.cancel("t1")
		s.rest()
		p.say(c.stopped())
		h.reads("t1", "RUN", "DONE cancelled", "RUN", "DONE cancelled")
		h.pass(time.Minute)
		p.silent()
	})
}

// acp_closed is an end too, when acp_exit and prompt_result do not come.
func TestAgentClosed(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.say(&acp.Closed{RunID: c.run, OK: true})
		c.s.rest()
		h.reads("t1", "RUN", "ERROR agent_exited")
		p.silent()
	})
}

// A cancel while the agent is being opened: no prompt is sent, and the next one is.
func TestCancelWhileOpening(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*acp.Open](p)
		h.cancel("t1")
		s.rest()
		p.silent()
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		h.settle()
		c := p.begin("t1", "again")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "DONE cancelled", "RUN", "DONE success")
		p.silent()
	})
}

// A cancel while the link is cut reaches the agent when it is back.
func TestCancelWhileTheLinkIsCut(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		h.settle()
		p.cut()
		h.cancel("t1")
		c.s.rest()
		c.says("m", "two")
		h.pass(2 * time.Second)
		p.link()
		want[*acp.SessionCancel](p)
		p.say(c.stopped())
		h.settle()
		h.reads("t1", "RUN", "says: one", "DONE cancelled")
		p.silent()
	})
}

// An agent that withdraws its question: permission_cancelled takes the Question back, and the
// Turn goes on.
func TestPermissionCancelled(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("3", "call-1")
		c.s.rest()
		p.say(signal(c.run, `{"type":"permission_cancelled","request_id":"3","session_id":"S1"}`))
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
		c.says("m", "never mind")
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "calls execute", "calls request_permission", "DONE interrupt", "RUN", `gets {"status":"cancelled"}`,
			"says: never mind", "gets The agent ended without a result.", "DONE success")
		p.silent()
	})
}

// A prompt that ends while its permission is open takes the Question back.
func TestPromptEndsWhileItAsks(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("3", "call-1")
		c.s.rest()
		c.ends()
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
		h.reads("t1", "RUN", "calls execute", "calls request_permission", "DONE interrupt", "RUN", `gets {"status":"cancelled"}`,
			"gets The agent ended without a result.", "DONE success")
		p.silent()
	})
}

// A proxy that is started anew while its agent asks: the Question is taken back, one cause is
// told.
func TestProxyRestartedWhileItAsks(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("3", "call-1")
		c.s.rest()
		p.cut()
		p.reborn("e2")
		p.link()
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
		h.reads("t1", "RUN", "calls execute", "calls request_permission", "DONE interrupt", "RUN", `gets {"status":"cancelled"}`,
			"gets The agent failed before this ended.", "ERROR agent_proxy_restarted")
		p.silent()
	})
}

// Words that belong to no prompt are a Run of their own.
func TestAgentSpeaksUnprompted(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		p.say(update(c.run, "", chunk("m", "by the way, ")))
		h.settle()
		p.say(update(c.run, "", chunk("m", "it rains")))
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		// State alone is no Run, but for the mode, which pages show: that must not wait for a prompt.
		p.say(update(c.run, "", `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x"}]}`))
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success")
		watch := h.hub.Subscribe(hints.Wanted{In: store.As(h.who)})
		defer watch.Close()
		h.settleNow()
		p.say(update(c.run, "", `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`))
		frames, err := watch.Next(h.t.Context())
		h.must(err)
		if len(frames) == 0 || !strings.Contains(string(frames[0]), `"currentModeId":"plan"`) {
			t.Errorf("/ws/client hears %s", frames)
		}
		h.pass(500 * time.Millisecond)
		h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way, it rains", "DONE success", "RUN", "DONE success")
		if state := string(h.session("t1").State); !strings.Contains(state, `"modeId":"plan"`) {
			t.Errorf("the thread's state is %s", state)
		}
		// The same mode again is no news.
		p.say(update(c.run, "", `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`))
		h.pass(10 * time.Second)
		if n := h.count("t1", "RUN_STARTED"); n != 3 {
			t.Errorf("%d Runs", n)
		}
	})
}
