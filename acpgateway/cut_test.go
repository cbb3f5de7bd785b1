package acpgateway_test

import (
	"fmt"
	"testing"
	"time"
)

// A link that is cut for two seconds in mid-prompt loses and doubles nothing.
func TestLinkCut2sNewProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		want := "says: "
		for i := range 30 {
			if i == 10 {
				p.cut()
			}
			if i == 20 {
				h.pass(2 * time.Second)
				p.link()
			}
			word := fmt.Sprintf("w%d ", i)
			want += word
			c.says("m", word)
		}
		c.ends()
		c.s.rest()
		h.settle()
		h.reads("t1", "RUN", want, "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		p.silent()
	})
}
