package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
)

// An agent that asks and speaks on does so over the end of the Run: every word is emitted once, in
// one Run or the next.
func TestSpeaksWhileItAsks(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
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
		want[*wire.SessionPermission](p)
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
