//go:build !race

// Run by scripts/test-unraced: two hours of polling a database take 20 s under the race detector.

package acpgateway_test

import (
	"fmt"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
)

// A permission may be open for an hour while the agent talks on: every word is in the log when it is sent, in Runs that
// end with the question again, and the prompt's time stands still meanwhile.
func TestPermissionOpenForAnHour(t *testing.T) {
	inEnv(t, plan{bridge: bridge.Limits{ApprovalTTL: 2 * time.Hour}}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "may I? ")
		h.pass(20 * time.Minute)
		c.asks("0", "call-1")
		c.s.rest()
		lines := []string{"RUN", "says: may I? ", "calls execute", "calls request_permission", "DONE interrupt"}
		for i := range 60 {
			h.pass(time.Minute)
			if i > 0 {
				lines = append(lines, "DONE interrupt")
			}
			word := fmt.Sprintf("w%d ", i)
			lines = append(lines, "RUN", "says: "+word)
			c.says("m2", word)
		}
		h.pass(time.Second)
		s := h.answer("t1", h.asked("t1")[0], "allow_once")
		want[*wire.SessionPermission](p)
		h.pass(39 * time.Minute)
		c.says("m3", "at last")
		c.ends()
		s.rest()
		h.settle()
		h.reads("t1", append(lines, `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`, "says: at last",
			"gets The agent ended without a result.", "DONE success")...)
		if left := p.unacknowledged(); left != 0 {
			t.Errorf("%d frames are not acknowledged", left)
		}
		p.silent()
	})
}
