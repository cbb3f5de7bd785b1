package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
)

const (
	usage    = `{"sessionUpdate":"usage_update","used":10,"size":100}`
	title    = `{"sessionUpdate":"session_info_update","title":"Shop"}`
	unlinked = `{"type":"transport_disconnected","instance_name":"i","code":0,"signal":null,"at":"now","reason":"closed"}`
)

// What an agent that was closed leaves behind is nobody's: its proxy may forget it, and so does
// the gateway.
func TestTrailingFramesAreAcknowledged(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Idle: 5 * time.Minute}}, func(h *house) {
		for _, p := range []*double{newProxy(h, "p1").link(), oldProxy(h, "p2").link()} {
			c := p.begin("t-"+p.id, "hi")
			c.says("m", "one")
			c.ends()
			c.s.rest()
			p.say(update(c.run, "", usage))
			h.pass(6 * time.Minute)
			want[*acp.Close](p)
			p.say(signal(c.run, unlinked), exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
			p.raw(`{"type":"nonsense","run_id":"` + c.run + `"}`)
			h.pass(time.Minute)
			if n := p.unacknowledged(); n != 0 {
				t.Errorf("%s: %d frames are not acknowledged", p.id, n)
			}
			h.pass(5 * time.Minute)
			if n := h.gateway.Tunnels(); n != 0 {
				t.Errorf("%s: %d tunnels are left", p.id, n)
			}
			h.reads("t-"+p.id, "RUN", "says: one", "DONE success")
			p.cut() // the next Session goes to the other
		}
	})
}

// A title is told once: it waits for the next Turn, and what lies behind it too.
func TestTrailingStateWaits(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Idle: 5 * time.Minute}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		p.say(update(c.run, "", usage), update(c.run, "", title))
		h.pass(6 * time.Minute)
		want[*acp.Close](p)
		p.say(exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
		h.pass(time.Minute)
		if n := p.unacknowledged(); n != 3 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		h.settle()
		if got := string(h.acp("t1")["info"]); got != `{"title":"Shop"}` {
			t.Errorf("info %s", got)
		}
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// The exit that a Turn from before a restart has not seen is not thrown away before it reads.
func TestExitAfterARestartIsRead(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		h.settle()
		p.cut()
		p.say(exitOf(c.run, nil))
		h.restart()
		p.link()
		h.pass(30 * time.Second)
		h.reads("t1", "RUN", "says: one", "ERROR agent_exited")
	})
}
