package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
)

// words has the agent say n numbered words, and gives them.
func (c *conversation) words(from, to int) string {
	var all strings.Builder
	for i := from; i < to; i++ {
		word := fmt.Sprintf("w%d ", i)
		all.WriteString(word)
		c.says(c.message, word)
	}
	return all.String()
}

// A link that is cut for two seconds in mid-prompt loses and doubles nothing.
func TestLinkCut2sNewProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		want := c.words(0, 10)
		p.cut()
		want += c.words(10, 20)
		h.pass(2 * time.Second)
		p.link()
		want += c.words(20, 30)
		c.ends()
		c.s.rest()
		h.settle()
		h.reads("t1", "RUN", "says: "+want, "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent()
	})
}

// What an old proxy hears of its agent without a link is lost; the gap is marked where it is.
func TestLinkCut2sOldProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		p.cut()
		c.words(10, 20)
		h.pass(2 * time.Second)
		p.link()
		after := c.words(20, 30)
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: "+before, "custom acp.gap", after, "DONE success")
		p.silent()
	})
}

// A proxy that has nothing under way is not said to have lost anything.
func TestLinkCutBetweenPromptsIsNoGap(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		p.cut()
		h.pass(2 * time.Second)
		p.link()
		c = p.begin("t1", "again")
		c.says("m", "yes")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "DONE success", "RUN", "says: yes", "DONE success")
	})
}

// A link that stays away ends the Run once, at the grace. What the agent said meanwhile is
// the Session's next Run when the link is back, and nothing of it is lost.
func TestLinkCut60s(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		h.settle()
		began := time.Now()
		p.cut()
		meanwhile := c.words(10, 20)
		c.s.rest()
		if took := time.Since(began); took < 45*time.Second || took > 46*time.Second {
			t.Errorf("the Run ended after %v", took)
		}
		h.pass(time.Minute - time.Since(began))
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_link_lost")
		p.link()
		meanwhile += c.words(20, 30)
		c.ends()
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_link_lost", "RUN", "says: "+meanwhile, "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent()
	})
}

// The agent's prompt ended while the link was away: its next Run says what it said, and ends.
func TestLinkCut60sPromptEndedMeanwhile(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		meanwhile := c.words(0, 10)
		c.ends()
		c.s.rest()
		h.pass(time.Minute)
		p.link()
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "ERROR agent_link_lost", "RUN", "says: "+meanwhile, "DONE success")
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		p.silent()
	})
}

// A proxy that was started anew has lost its agents: one cause, told.
func TestProxyRestarted(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		p.cut()
		p.reborn("e2")
		h.pass(2 * time.Second)
		p.link()
		events := c.s.rest()
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_proxy_restarted")
		if last := events[len(events)-1]; !strings.Contains(last, "proxy was restarted") {
			t.Error(last)
		}
		// The next prompt opens an agent again.
		h.pass(time.Minute)
		p.silent()
		c = p.begin("t1", "again")
		if c.sent.SessionID != "S1" {
			t.Errorf("session_id %q is not the one from before", c.sent.SessionID)
		}
		c.says("m2", "back")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_proxy_restarted", "RUN", "says: back", "DONE success")
		p.silent()
	})
}

// The agent's process ends in mid-prompt: one cause, told, with how it ended.
func TestAgentExit(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 3)
		// The order of a real proxy (facts §3.6).
		p.say(signal(c.run, `{"type":"text","text":"[agent:stderr] panic: oh no"}`))
		p.say(signal(c.run, `{"type":"transport_disconnected","instance_name":"i","code":2,"signal":null,"at":"now","reason":"agent_exit"}`))
		code := 2
		p.say(exitOf(c.run, &code))
		p.say(signal(c.run, `{"type":"text","text":"[proxy:error] agent closed"}`))
		c.fails("Error: agent closed")
		events := c.s.rest()
		h.reads("t1", "RUN", "says: "+before, "custom proxy.text", "ERROR agent_exited")
		last := events[len(events)-1]
		for _, cause := range []string{"agent closed", "code 2", "panic: oh no"} {
			if !strings.Contains(last, cause) {
				t.Errorf("no %q in %s", cause, last)
			}
		}
		h.pass(time.Minute)
		p.silent()
	})
}

// acp_exit alone ends the Run too: prompt_result may be lost.
func TestAgentExitWithoutPromptResult(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.say(exitOf(c.run, nil))
		c.s.rest()
		h.reads("t1", "RUN", "ERROR agent_exited")
		c = p.begin("t1", "again") // opens again, with init
		if c.sent.Init == nil || c.sent.Init.AgentInputs == nil {
			t.Errorf("prompt_send without init: %+v", c.sent)
		}
		c.ends()
		c.s.rest()
	})
}

// The exit of the agent before, told late, is not the exit of the one that is opened.
func TestExitOfTheAgentBefore(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*acp.Open](p)
		p.say(exitOf(open.RunID, nil), &acp.Closed{RunID: open.RunID, OK: true})
		h.pass(9 * time.Second) // some agents take that long
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		sent := want[*acp.PromptSend](p)
		h.pass(time.Minute)
		c := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		c.says("m", "here")
		c.ends()
		s.rest()
		h.reads("t1", "RUN", "says: here", "DONE success")
	})
}

// An answer that is given while the link is cut reaches the agent when it is back, once.
func TestAnswerWhileTheLinkIsCut(t *testing.T) {
	for _, kind := range []func(*house, string) *double{oldProxy, newProxy} {
		inHouseNamed(t, kind, func(h *house, p *double) {
			p.link()
			c := p.begin("t1", "hi")
			c.asks("0", "call-1")
			c.s.rest()
			p.cut()
			s := h.answer("t1", h.asked("t1")[0], "allow_once")
			h.pass(2 * time.Second)
			p.link()
			if said := want[*acp.SessionPermission](p); said.RequestID != "0" || *said.OptionID != "p-once" {
				t.Errorf("%+v", said)
			}
			c.says("m", "thanks")
			c.ends()
			s.rest()
			p.silent()
		})
	}
}

// A link that is cut while the agent is being opened, again and again: one acp_open, one
// prompt_send.
func TestLinkCutWhileOpening(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*acp.Open](p)
		p.cut()
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		h.pass(2 * time.Second)
		p.link()
		sent := want[*acp.PromptSend](p)
		c := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		for range 20 {
			c.says("m", "x")
			p.cut()
			c.says("m", "y")
			h.pass(time.Second)
			p.link()
		}
		c.ends()
		s.rest()
		h.settle()
		h.reads("t1", "RUN", "says: "+strings.Repeat("xy", 20), "DONE success")
		p.silent()
	})
}

// An old proxy's acp_opened may be what a cut link swallowed: it is asked again.
func TestLinkCutWhileOpeningOldProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*acp.Open](p)
		p.cut()
		p.say(&acp.Opened{RunID: open.RunID, OK: true}) // lost
		h.pass(2 * time.Second)
		p.link()
		open = want[*acp.Open](p)
		p.say(&acp.Opened{RunID: open.RunID, OK: true}, &acp.Opened{RunID: open.RunID, OK: true})
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t1", "RUN", "DONE success")
		p.silent()
	})
}

// A prompt that a cut link swallowed is sent again on the next, and its agent may think as long
// as any.
func TestPromptLostOnTheWay(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		h.settle()
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
		s := h.post("t1", "again")
		h.settle()
		p.cut()
		p.mu.Lock()
		p.deaf = false
		p.mu.Unlock()
		h.pass(2 * time.Second)
		p.link()
		sent := want[*acp.PromptSend](p)
		h.pass(10 * time.Minute)
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t1", "RUN", "DONE success", "RUN", "DONE success")
		p.silent()
	})
}
