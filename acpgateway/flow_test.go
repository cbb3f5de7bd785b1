package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// One Session's agent sends much while another's permission is open: both flow.
func TestUpdatesFlowWhileAnotherSessionAsks(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		asking, talking := p.begin("asking", "hi"), p.begin("talking", "hi")
		asking.says("m", "may I? ")
		asking.asks("0", "call-1")
		asking.s.rest()
		const n = 10_000
		var words strings.Builder
		for i := range n {
			word := fmt.Sprintf("%d ", i)
			words.WriteString(word)
			talking.says("m", word)
			if i%1000 == 0 {
				asking.says("m2", "still ")
			}
		}
		talking.ends()
		talking.s.rest()
		h.reads("talking", "RUN", "says: "+words.String(), "DONE success")
		s := h.answer("asking", h.asked("asking")[0], "allow_once")
		want[*wire.SessionPermission](p)
		asking.ends()
		s.rest()
		h.settle()
		h.reads("asking", "RUN", "says: may I? ", "calls execute", "calls request_permission", "DONE interrupt", "RUN",
			"says: "+strings.Repeat("still ", n/1000), `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`,
			"gets The agent ended without a result.", "DONE success")
		if left := p.unacknowledged(); left != 0 {
			t.Errorf("%d frames are not acknowledged", left)
		}
	})
}
