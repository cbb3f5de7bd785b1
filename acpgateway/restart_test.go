package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/proxies"
	"aqueduct/store"
)

// A server that is started anew takes up the prompt that its proxy still has: it is not sent
// again, and nothing is lost or doubled.
func TestGatewayRestarted(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		want := c.words(0, 10)
		h.settle()
		want += c.words(10, 20) // on their way when it stops
		p.restart()
		want += c.words(20, 30)
		h.pass(2 * time.Second)
		p.link()
		want += c.words(30, 40)
		h.pass(time.Minute)
		want += c.words(40, 50)
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: "+want, "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent() // no second prompt_send
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		p.silent()
	})
}

// The same between two messages.
func TestGatewayRestartedBetweenMessages(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		h.settle()
		p.restart()
		c.message = "m2"
		after := c.words(10, 20)
		h.pass(2 * time.Second)
		p.link()
		after += c.words(20, 30)
		h.pass(time.Minute)
		after += c.words(30, 40)
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: "+before, "says: "+after, "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent() // no second prompt_send
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		p.silent()
	})
}

// What a cut link kept from the server before its restart comes after it.
func TestGatewayRestartedWhileTheLinkIsCut(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		want := c.words(0, 10)
		p.cut()
		want += c.words(10, 20)
		h.restart()
		p.link()
		want += c.words(20, 30)
		c.ends()
		h.settle()
		h.says("t1", want)
		p.silent()
	})
}

// An old proxy's prompt is taken up too, by its id; what was said meanwhile is a gap.
func TestGatewayRestartedOldProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		h.settle()
		p.restart()
		c.words(10, 20)
		h.pass(2 * time.Second)
		p.link()
		c.message = "m2"
		after := c.words(20, 30)
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: "+before, "custom acp.gap", "says: "+after, "DONE success")
		p.silent()
	})
}

// A proxy that does not come back after the server's restart costs one RUN_ERROR, at the grace.
func TestGatewayRestartedProxyGone(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		h.settle()
		p.restart()
		h.pass(44 * time.Second)
		h.reads("t1", "RUN", "says: "+before)
		h.pass(2 * time.Second)
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_link_lost")
	})
}

// A proxy that comes back without the prompt has lost it: the Run ends soon.
func TestGatewayRestartedPromptLost(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 10)
		h.settle()
		p.restart()
		p.reborn("e2")
		p.link()
		h.settle() // at once: it is another start of the proxy
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_proxy_restarted")
	})
}

// A permission that is open at the restart is answered after it, by the agent's own option.
func TestGatewayRestartedPermissionOpen(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 5)
		c.asks("0", "call-1")
		c.s.rest() // the Run ends with the question
		kept := c.words(5, 10)
		h.settle()
		kept += c.words(10, 12)
		h.settle()
		p.restart()
		away := c.words(12, 15)
		p.link()
		h.settle()
		away += c.words(15, 20)
		h.settle()
		p.silent()
		asked := h.asked("t1")
		if len(asked) != 1 {
			t.Fatalf("open: %v", asked)
		}
		h.answer("t1", asked[0], "allow_once")
		said := want[*acp.SessionPermission](p)
		if said.RequestID != "0" || said.Outcome != "selected" || said.OptionID == nil || *said.OptionID != "p-once" || said.SessionID != agentSession {
			t.Errorf("session_permission %+v", said)
		}
		c.message = "m2"
		after := c.words(20, 25)
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: "+before, "calls execute", "calls request_permission", "DONE interrupt",
			"RUN", "says: "+kept+away, `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`, "says: "+after,
			"gets The agent ended without a result.", "DONE success")
		p.silent()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// A proxy that lists the prompt has it, however long its agent is quiet.
func TestQuietAgentIsNotLost(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one ")
		h.settle()
		p.cut()
		h.pass(2 * time.Second)
		p.link()
		h.pass(10 * time.Minute)
		c.says("m", "two ")
		h.settle()
		p.restart()
		p.link()
		h.pass(10 * time.Minute)
		c.message = "m2"
		c.says("m2", "three")
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: one two ", "says: three", "DONE success")
		p.silent()
	})
}

// An old proxy that says nothing of the prompt after the server's restart has lost its result:
// one RUN_ERROR, at the grace.
func TestGatewayRestartedOldProxySaysNothing(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		h.settle()
		p.restart()
		c.ends() // lost
		h.pass(2 * time.Second)
		p.link()
		h.pass(44 * time.Second)
		h.reads("t1", "RUN", "says: one", "custom acp.gap")
		h.pass(3 * time.Second)
		h.reads("t1", "RUN", "says: one", "custom acp.gap", "ERROR agent_link_lost")
		want[*acp.SessionCancel](p)
	})
}

// A restart between the prompt's end and its being kept: the result comes again, and ends the
// Run once.
func TestGatewayRestartedAtTheEnd(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		h.settle()
		p.cut()
		c.ends()
		h.restart()
		p.link()
		h.settle()
		h.reads("t1", "RUN", "says: one", "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
	})
}

// A server that is started anew again and again takes the prompt up each time.
func TestGatewayRestartedOften(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		words := ""
		for i := range 5 {
			words += c.words(10*i, 10*i+5)
			if i%2 == 0 {
				h.settle()
			}
			p.restart()
			words += c.words(10*i+5, 10*i+10)
			p.link()
		}
		c.ends()
		h.settle()
		h.says("t1", words)
		p.silent()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// A server that is started anew while the prompt waits for acp_opened cannot know whether it was
// sent: it is not sent again, and the Run ends soon.
func TestGatewayRestartedWhileOpening(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		h.post("t1", "hi")
		open := want[*acp.Open](p)
		h.settle()
		p.restart()
		p.link()
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		p.say(signal(open.RunID, `{"type":"sandbox_instance_status","instance_name":"i","provider":"p","runtime":null,"status":"running","last_seen_at":"now","last_error":null}`))
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "ERROR agent_link_lost")
		c := p.begin("t1", "again")
		c.ends()
		c.s.rest()
		p.silent()
	})
}

// A server that had no time to say goodbye leaves its proxies online in the database: the next
// one corrects it.
func TestProxiesAreOfflineAfterAKill(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		h.settle()
		row, err := h.store.Proxy(h.t.Context(), store.System(), "p1")
		if err != nil || row.Status != store.ProxyOnline {
			t.Fatalf("%+v %v", row, err)
		}
		p.restart()
		h.must(proxies.New(h.store).SaveProxy(h.t.Context(), row))
		h.restart()
		h.settle()
		if row, err = h.store.Proxy(h.t.Context(), store.System(), "p1"); err != nil || row.Status != store.ProxyOffline {
			t.Errorf("%+v %v", row, err)
		}
	})
}
