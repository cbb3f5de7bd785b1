package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
)

// A cut that is longer than the grace fails the Turn, and a proxy that does not count its frames never repeats the
// prompt_result that was lost in it. The prompt ends at the grace all the same, and its seat is free.
func TestLostResultFreesTheSeat(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1")
		p.most = 1
		p.link()
		c := p.begin("t1", "hi")
		c.says("m", "almost done")
		h.settle()
		p.cut()
		c.ends() // lost
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		h.pass(46 * time.Second)
		if _, busy := h.gateway.Linked("p1"); busy != 0 {
			t.Errorf("busy: %d, and the agent is at nothing", busy)
		}
		// An agent that is still at it stops; the one here has ended long ago.
		want[*acp.SessionCancel](p)
		h.pass(15 * time.Second)
		p.silent() // its process rests and keeps its session
		other := p.h.post("t2", "hi")
		want[*acp.Close](p) // the agent that rests makes room
		open := want[*acp.Open](p)
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		other.rest()
		h.reads("t2", "RUN", "DONE success")
	})
}

// The same, where the agent went on in a Run of its own and a second cut swallowed the result.
func TestLostResultOfALeftPromptFreesTheSeat(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		c.says("m", "still here")
		h.settle()
		p.cut()
		c.ends() // lost
		h.pass(2 * time.Second)
		p.link()
		h.pass(2 * time.Minute)
		if _, busy := h.gateway.Linked("p1"); busy != 0 {
			t.Errorf("busy: %d, and the agent is at nothing", busy)
		}
	})
}

// A prompt that outlived the grace of its link is not stopped while its agent goes on, nor is the prompt behind it.
func TestLeftPromptThatGoesOnIsNotStopped(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		for range 5 {
			c.says("m", "and on ")
			h.pass(10 * time.Minute)
		}
		p.silent()
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "ERROR agent_link_lost", "RUN", "custom acp.gap", "says: and on and on and on and on and on ", "DONE success")
	})
}

// A message behind a lost result is answered and stopped by nothing, however long its agent thinks.
func TestMessageBehindALostResultIsNotStopped(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.ends() // lost
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		h.pass(10 * time.Second)
		next := p.begin("t1", "again")
		h.pass(5 * time.Minute)
		p.silent()
		next.says("m2", "thought it over")
		next.ends()
		next.s.rest()
		if _, busy := h.gateway.Linked("p1"); busy != 0 {
			t.Errorf("busy: %d, and the agent is at nothing", busy)
		}
		h.pass(2 * time.Minute)
		p.silent()
	})
}

// A proxy that counts lists what its agents are at. What it does not list, and does not end, is gone.
func TestPromptThatACountingProxyLost(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.s.rest()
		p.mu.Lock()
		clear(p.runs) // the agent's process is gone, and nothing of its end was kept
		p.mu.Unlock()
		p.link()
		h.pass(7 * time.Second)
		if _, busy := h.gateway.Linked("p1"); busy != 0 {
			t.Errorf("busy: %d, and the agent is at nothing", busy)
		}
	})
}
