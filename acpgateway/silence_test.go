package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
)

// An agent that says nothing at all: the chat hears of it after half a minute, with what its
// console said, and the Turn fails at the limit. Its prompt is cancelled.
func TestSilentAgent(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Silence: 5 * time.Minute}}, func(h *house) {
		p := newProxy(h, "p1").link()
		began := time.Now()
		c := p.begin("t1", "hi")
		c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
		p.say(signal(c.run, `{"type":"text","text":"[agent:stderr] 401 Unauthorized"}`))
		h.pass(31 * time.Second)
		h.reads("t1", "RUN", `custom acp.silent`)
		c.s.rest()
		if took := time.Since(began); took < 5*time.Minute || took > 5*time.Minute+time.Second {
			t.Errorf("ended after %v", took)
		}
		want[*acp.SessionCancel](p)
		h.reads("t1", "RUN", `custom acp.silent`, "ERROR agent_silent")
	})
}

// What is no silence of the agent's: a tool that runs, a person who is asked, and words within
// the limit, however long all of it takes.
func TestWhatIsNotSilence(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Silence: time.Minute, Prompt: 24 * time.Hour}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.update(tool("tool_call", "call-1", `"kind":"execute","status":"in_progress","rawInput":{"cmd":"make"}`))
		h.pass(50 * time.Minute)
		c.update(tool("tool_call_update", "call-1", finished))
		for range 10 {
			h.pass(59 * time.Second)
			c.says("m", "on ")
		}
		c.asks("0", "call-2")
		c.s.rest()
		h.pass(5 * time.Minute)
		s := h.answer("t1", h.asked("t1")[0], "allow_once")
		want[*acp.SessionPermission](p)
		h.pass(50 * time.Minute)
		c.ends()
		s.rest()
		if n := h.count("t1", "RUN_ERROR"); n != 0 {
			t.Error(transcript(t, h.events("t1")))
		}
	})
}
