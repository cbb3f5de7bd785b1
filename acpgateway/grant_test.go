package acpgateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// grants are those that are kept.
func (h *house) grants() []store.Grant {
	h.t.Helper()
	list, err := h.store.Grants(h.t.Context(), store.System(), store.Page{Limit: 10})
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// asksLike asks under another request and call for what a command does.
func (c *conversation) asksLike(request, call, command string) {
	f := c.request(request, command)
	f.Content = json.RawMessage(strings.Replace(string(f.Content), `"toolCallId":"`+command+`"`, `"toolCallId":"`+call+`"`, 1))
	c.p.say(f)
}

// allowed fails the test unless the agent hears its option to allow a request once.
func (c *conversation) allowed(request acp.RequestID) {
	c.p.h.t.Helper()
	said := want[*acp.SessionPermission](c.p)
	if said.RequestID != request || said.Outcome != "selected" || said.OptionID == nil || *said.OptionID != "p-once" {
		c.p.h.t.Errorf("%+v", said)
	}
}

// "Always" stays ours: the agent hears its option to allow once, and the same call is not asked
// again in that Session; another call is, and so is the same in another Session.
func TestAlways(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asksLike("0", "call-1", "ls")
		c.s.rest()
		s := h.answer("t1", h.asked("t1")[0], "allow_always")
		c.allowed("0")
		if kept := h.grants(); len(kept) != 1 || kept[0].SessionID != h.session("t1").ID || kept[0].Tool != "execute" {
			t.Fatalf("%+v", kept)
		}
		c.asksLike("1", "call-2", "ls")
		c.allowed("1")
		h.settle()
		if open := h.asked("t1"); len(open) != 0 {
			t.Fatalf("asked again: %v", open)
		}
		c.asksLike("2", "call-3", "rm")
		s.rest()
		if open := h.asked("t1"); len(open) != 1 {
			t.Fatalf("open: %v", open)
		}
		s = h.answer("t1", h.asked("t1")[0], "allow_once")
		c.allowed("2")
		c.ends()
		s.rest()

		c = p.begin("t2", "hi")
		c.asksLike("3", "call-1", "ls")
		c.s.rest()
		if open := h.asked("t2"); len(open) != 1 || len(h.grants()) != 1 {
			t.Fatalf("open: %v", open)
		}
		p.silent()
	})
}

// It holds when the server was started anew, too.
func TestAlwaysBehindARestart(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asksLike("0", "call-1", "ls")
		c.s.rest()
		h.answer("t1", h.asked("t1")[0], "allow_always")
		c.allowed("0")
		h.settle()
		p.restart()
		p.link()
		c.asksLike("1", "call-2", "ls")
		c.allowed("1")
		c.ends()
		h.settle()
		h.legal("t1", h.events("t1"))
		p.silent()
	})
}
