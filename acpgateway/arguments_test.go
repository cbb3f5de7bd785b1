package acpgateway_test

import (
	"strings"
	"testing"
	"time"
)

// A call's arguments are told while it runs, once no more of them has come for a moment; and once
// only, also when the server is restarted then.
func TestArgumentsOfARunningCall(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		args := func() (told []string) {
			for _, ev := range h.events("t1") {
				if strings.Contains(ev, `"type":"TOOL_CALL_ARGS"`) || strings.Contains(ev, `"type":"TOOL_CALL_CHUNK"`) {
					told = append(told, ev)
				}
			}
			return told
		}
		c.update(tool("tool_call", "call-1", `"kind":"execute","status":"in_progress","rawInput":{"cwd":"/w"}`))
		h.pass(100 * time.Millisecond)
		c.update(tool("tool_call_update", "call-1", `"status":"in_progress","rawInput":{"cwd":"/w","command":"make"}`))
		h.pass(200 * time.Millisecond)
		if told := args(); len(told) != 0 {
			t.Errorf("a part was told: %v", told)
		}
		h.pass(time.Second)
		if told := args(); len(told) != 1 || !strings.Contains(told[0], "make") {
			t.Fatalf("%v", told)
		}
		p.restart()
		p.link()
		h.settle()
		c.update(tool("tool_call_update", "call-1", finished))
		c.ends()
		h.pass(2 * time.Second)
		if told := args(); len(told) != 1 {
			t.Errorf("told again: %v", told)
		}
	})
}
