package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
)

const (
	running  = `"title":"ls","kind":"execute","status":"in_progress","rawInput":{"cmd":"ls"}`
	finished = `"status":"completed","rawOutput":"out"`
)

// count is how many events of a thread have all of these in them.
func (h *house) count(thread string, parts ...string) (n int) {
	h.t.Helper()
	for _, raw := range h.events(thread) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(raw, part)
		}
		if has {
			n++
		}
	}
	return n
}

// once fails the test unless a thread has one of each.
func (h *house) once(thread string, types ...string) {
	h.t.Helper()
	for _, kind := range types {
		if n := h.count(thread, `"type":"`+kind+`"`); n != 1 {
			h.t.Errorf("%d × %s", n, kind)
		}
	}
}

// A call that was begun before the server's restart goes on after it: one start, its arguments
// once, one result.
func TestGatewayRestartedInACall(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.update(tool("tool_call", "call-1", running))
		h.settle()
		p.restart()
		p.link()
		c.update(tool("tool_call_update", "call-1", finished))
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "calls execute", "gets out", "DONE success")
		h.once("t1", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")
	})
}

// One whose arguments are told after it has them once too, and those it was told with.
func TestGatewayRestartedBeforeACallsArguments(t *testing.T) {
	for name, updates := range map[string][2]string{
		"told after":  {`"title":"ls","kind":"execute","status":"pending","rawInput":{}`, `"status":"in_progress","rawInput":{"cmd":"ls"}`},
		"told before": {`"title":"ls","kind":"execute","status":"pending","rawInput":{"cmd":"ls"}`, `"status":"in_progress"`},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := newProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				c.update(tool("tool_call", "call-1", updates[0]))
				h.settle()
				p.restart()
				p.link()
				c.update(tool("tool_call_update", "call-1", updates[1]))
				h.settle()
				p.restart()
				p.link()
				c.update(tool("tool_call_update", "call-1", finished))
				c.ends()
				h.settle()
				h.reads("t1", "RUN", "calls execute", "gets out", "DONE success")
				h.once("t1", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")
				if h.count("t1", "TOOL_CALL_ARGS", "ls") != 1 {
					t.Error("other arguments")
				}
			})
		})
	}
}

// A message that goes on after a call that stood in it is another one, also when the server was
// started anew in between; late news of a call that has its result begins none.
func TestGatewayRestartedBetweenPartsOfAMessage(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one")
		c.update(tool("tool_call", "call-1", running))
		c.update(tool("tool_call_update", "call-1", finished))
		h.settle()
		p.restart()
		p.link()
		c.update(tool("tool_call_update", "call-1", `"title":"ls -l"`))
		c.says("m", "two")
		c.update(tool("tool_call", "call-1", running)) // counted anew
		c.update(tool("tool_call_update", "call-1", finished))
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: one", "calls execute", "gets out", "says: two", "calls execute", "gets out", "DONE success")
	})
}

// Thoughts and plans go on too.
func TestGatewayRestartedInAThought(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		thought := func(text string) { c.update(strings.ReplaceAll(chunk("m", text), "message_chunk", "thought_chunk")) }
		steps := `{"sessionUpdate":"plan","entries":[{"content":"look","priority":"high","status":"pending"}]}`
		c.update(steps)
		thought("hm")
		h.settle()
		p.restart()
		p.link()
		thought(", yes")
		c.says("m", "two")
		c.update(strings.ReplaceAll(steps, "pending", "completed"))
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "thinks: hm, yes", "says: two", "DONE success")
		h.once("t1", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_START", "REASONING_END")
	})
}

// A later session/load tells nothing again of what was said before the restart, nor of what was
// said after it.
func TestSessionLoadAfterRestartInMidPrompt(t *testing.T) {
	for name, ids := range map[string][3]string{"with ids": {"m1", "m2", "m3"}, "without ids": {}} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := newProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				c.says(ids[0], "one ")
				h.settle()
				p.restart()
				p.link()
				c.says(ids[0], "more")
				c.update(tool("tool_call", "call-1", running))
				h.settle()
				p.restart()
				p.link()
				c.update(tool("tool_call_update", "call-1", finished))
				c.says(ids[1], "two")
				c.ends()
				h.settle()
				p.say(exitOf(c.run, nil))
				h.settle()
				c = p.begin("t1", "again")
				c.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"}}`)
				c.says(ids[0], "one more")
				c.update(tool("tool_call", "call-1", `"title":"ls","kind":"execute","status":"completed","rawInput":{"cmd":"ls"},"rawOutput":"out"`))
				c.says(ids[1], "two")
				c.says(ids[2], "three")
				c.ends()
				c.s.rest()
				h.reads("t1", "RUN", "says: one more", "calls execute", "gets out", "says: two", "DONE success", "RUN", "says: three", "DONE success")
			})
		})
	}
}

// What was open when a Run failed is not open in the Run that nobody prompted after a restart.
func TestRestartBehindAFailedRun(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one ")
		h.settle()
		p.cut()
		c.says("m", "two ")
		c.s.rest()
		h.restart()
		p.link()
		c.says("m", "three")
		c.ends()
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "says: one ", "ERROR agent_link_lost", "RUN", "says: two three", "DONE success")
	})
}

// More than a mark may hold: the Turn goes on under ids of its own, and its Run stays legal.
func TestGatewayRestartedWithTooMuchOpen(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		for range 4 {
			long := strings.Repeat("x", 3000)
			c.update(tool("tool_call", "call-1", `"title":"w","kind":"execute","status":"in_progress","rawInput":{"cmd":"`+long+`"}`))
		}
		c.says("m", "one")
		h.settle()
		p.restart()
		p.link()
		c.says("m", "two")
		c.update(tool("tool_call_update", "call-1", finished))
		c.ends()
		h.settle()
		h.legal("t1", h.events("t1"))
		if h.count("t1", "RUN_FINISHED") != 1 {
			t.Error(transcript(t, h.events("t1")))
		}
	})
}

// A permission for a call that was begun before the restart shows the call's arguments.
func TestGatewayRestartedBeforeAPermission(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.update(tool("tool_call", "call-1", running))
		h.settle()
		p.restart()
		p.link()
		f := c.request("0", "call-1")
		f.Content = []byte(strings.ReplaceAll(string(f.Content), `,"rawInput":{"cmd":"call-1"}`, ""))
		p.say(f)
		h.settle()
		h.answer("t1", h.asked("t1")[0], "allow_once")
		want[*acp.SessionPermission](p)
		c.update(tool("tool_call_update", "call-1", finished))
		c.ends()
		h.settle()
		if h.count("t1", "TOOL_CALL_ARGS", `\"args\":{\"cmd\":\"ls\"}`) != 1 {
			t.Errorf("%v", h.events("t1"))
		}
		h.legal("t1", h.events("t1"))
	})
}
