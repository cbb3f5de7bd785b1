package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
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
		h.says("t1", want) // in two messages
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
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_link_lost")
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
			"RUN", `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`, "says: "+kept, "says: "+away, "says: "+after, "DONE success")
		p.silent()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}
