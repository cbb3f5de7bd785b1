package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStderrIsOneRecord: what an agent writes to its stderr while it works is one record for a
// while of lines, in their order, and no part of the chat.
func TestStderrIsOneRecord(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		var lines strings.Builder
		for i := range 40 {
			fmt.Fprintf(&lines, "line %d\\n", i)
			p.send(signal(c.run, fmt.Sprintf(`{"type":"text","text":"[agent:stderr] line %d"}`, i)))
			h.pass(50 * time.Millisecond)
		}
		if got := h.records(c.prompt); len(got) != 0 {
			t.Fatalf("after 2 s: %v", got)
		}
		h.pass(5 * time.Second)
		h.recorded(c.prompt, `proxy acp.update.received {"text":"[agent:stderr] `+lines.String()+`","type":"text"}`)
		// A flood is bounded, and what ends the prompt stands behind its last line.
		long := strings.Repeat("x", 9000)
		for range 2 {
			p.send(signal(c.run, `{"type":"text","text":"[agent:stderr] `+long+`"}`))
		}
		p.send(signal(c.run, `{"type":"text","text":"[agent:stderr] the end"}`))
		c.ends()
		c.s.rest()
		h.recorded(c.prompt, `proxy acp.update.received {"text":"[agent:stderr] `+lines.String()+`","type":"text"}`,
			`proxy acp.update.received {"text":"[agent:stderr] `+long+`\n`+long+`\n","type":"text"}`,
			`proxy acp.update.received {"text":"[agent:stderr] the end\n","type":"text"}`,
			`acp acp.update.received {"type":"prompt_result","ok":true,"stopReason":"end_turn"}`)
		h.reads("t1", "RUN", "DONE success")
	})
}
