package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
)

// An agent that asks and speaks on does so over the end of the Run: every word is told once, in
// one Run or the next.
func TestSpeaksWhileItAsks(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "may I? ")
		c.asks("0", "call-1")
		all := ""
		for i := range 60 {
			word := fmt.Sprintf("w%d ", i)
			all += word
			c.says("m", word)
			h.pass(30 * time.Millisecond)
		}
		h.settle()
		s := h.answer("t1", h.asked("t1")[0], "allow_once")
		want[*acp.SessionPermission](p)
		c.says("m2", "thanks")
		c.ends()
		s.rest()
		h.legal("t1", h.events("t1"))
		said := ""
		for line := range strings.Lines(transcript(t, h.events("t1"))) {
			if words, ok := strings.CutPrefix(line, "says: "); ok {
				said += strings.TrimSuffix(words, "\n")
			}
		}
		if said != "may I? "+all+"thanks" {
			t.Errorf("said %q\n%s", said, transcript(t, h.events("t1")))
		}
		if n := h.count("t1", "RUN_ERROR"); n != 0 {
			t.Error(transcript(t, h.events("t1")))
		}
	})
}

// A call that began beside the one it asks for is told of in the next Run: its result, and its
// arguments if they came too late.
func TestCallBesideAnAskedOne(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.update(tool("tool_call", "call-2", `"title":"ls","kind":"execute","status":"pending","rawInput":{}`))
		c.asks("0", "call-1")
		c.s.rest()
		c.update(tool("tool_call_update", "call-2", `"status":"in_progress","rawInput":{"cmd":"ls"}`))
		c.update(tool("tool_call_update", "call-2", finished))
		h.settle()
		s := h.answer("t1", h.asked("t1")[0], "allow_once")
		want[*acp.SessionPermission](p)
		c.ends()
		s.rest()
		h.reads("t1", "RUN", "calls execute", "calls execute", "calls request_permission", "DONE interrupt",
			"RUN", "custom acp.arguments_completed", "gets out", `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`,
			"gets The agent ended without a result.", "DONE success")
	})
}
