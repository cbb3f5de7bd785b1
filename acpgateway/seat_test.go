package acpgateway_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
)

// Room is made only where no proxy has any: a full proxy's resting agents are left alone
// while another has a seat.
func TestRoomIsMadeLast(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p1, p2 := oldProxy(h, "p1"), oldProxy(h, "p2")
		p1.most, p2.most = 1, 2
		p1.link()
		c := p1.begin("a", "hi")
		c.ends()
		c.s.rest() // p1 is full, and its agent rests
		p2.link()
		b := p2.begin("b", "hi")
		p1.silent()
		b.ends()
		b.s.rest()
	})
}

// Of prompts that come at once no more are placed than the proxy allows.
func TestPromptsAtOnceKeepToTheBound(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1")
		p.most = 2
		p.link()
		var streams []*stream
		for i := range 6 {
			streams = append(streams, h.post("t"+strconv.Itoa(i), "hi"))
		}
		h.settle()
		opened := 0
		for _, in := range p.left() {
			if _, ok := in.frame.(*acp.Open); ok {
				opened++
			}
		}
		if opened != 2 {
			t.Errorf("%d agents were opened", opened)
		}
		busy := 0
		for i := range streams {
			if all := strings.Join(h.events("t"+strconv.Itoa(i)), "\n"); strings.Contains(all, `"code":"agent_busy"`) {
				busy++
			}
		}
		if busy != 4 {
			t.Errorf("%d were told that it is busy", busy)
		}
	})
}

// An agent rests as long as its settings keep it alive.
func TestKeepaliveIsKept(t *testing.T) {
	inHouse(t, plan{agents: map[string]acpgateway.AgentConfig{"dev": {Keepalive: 2 * time.Hour}}}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		h.pass(119 * time.Minute)
		p.silent()
		h.pass(2 * time.Minute)
		want[*acp.Close](p)
	})
}

// A control that cancels does what the user's own cancel does: session_cancel, then every
// open request answered cancelled.
func TestControlCancelWithAQuestionOpen(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.say(c.request("0", "c1"))
		c.s.rest()
		h.settle()
		if err := <-h.controlled(c.run, bridge.Control{Action: bridge.ControlCancel}); err != nil {
			t.Error(err)
		}
		if f := want[*acp.SessionCancel](p); f.SessionID == "" {
			t.Errorf("%+v", f)
		}
		if f := want[*acp.SessionPermission](p); f.Outcome != "cancelled" {
			t.Errorf("%+v", f)
		}
		p.say(c.result())
		h.settle()
	})
}
