//go:build !race

// Run by scripts/test-unraced, which gives the reason.

package acpgateway_test

import (
	"strings"
	"testing"
)

// A large frame within the limit is taken.
func TestFrameWithinTheLimit(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		text := strings.Repeat("x", 15<<20)
		c.says("m", text)
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: "+text, "DONE success")
	})
}
