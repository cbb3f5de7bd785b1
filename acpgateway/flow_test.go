package acpgateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
	"aqueduct/bridge"
)

// One Session's agent says much while another's permission is open: both flow.
func TestUpdatesFlowWhileAnotherSessionAsks(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
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
		want[*acp.SessionPermission](p)
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

// A permission may be open for an hour while the agent talks on: every word is in the log when it is said, in Runs that
// end with the question again, and the prompt's time stands still meanwhile.
func TestPermissionOpenForAnHour(t *testing.T) {
	inHouse(t, plan{bridge: bridge.Limits{ApprovalTTL: 2 * time.Hour}}, func(h *house) {
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
		want[*acp.SessionPermission](p)
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

// The prompt's own time does run out, and its agent is told to stop.
func TestPromptTimeout(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Prompt: 10 * time.Minute}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		if c.sent.TimeoutMS != (10 * time.Minute).Milliseconds() {
			t.Errorf("timeout_ms %d", c.sent.TimeoutMS)
		}
		began := time.Now()
		c.s.rest()
		if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("after %v", took)
		}
		h.reads("t1", "RUN", "ERROR agent_prompt_timeout")
		want[*acp.SessionCancel](p)
	})
}

// An agent that does not start in time is one RUN_ERROR, and is closed.
func TestOpenTimeout(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Open: time.Minute}}, func(h *house) {
		p := newProxy(h, "p1").link()
		began := time.Now()
		s := h.post("t1", "hi")
		want[*acp.Open](p)
		s.rest()
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("after %v", took)
		}
		h.reads("t1", "RUN", "ERROR agent_open_timeout")
		want[*acp.Close](p)
	})
}
