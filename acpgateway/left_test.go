package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
	"aqueduct/store"
)

// An old proxy whose link was away too long: what it still hears of the prompt is the next Run,
// behind the mark of the gap.
func TestLinkCut60sOldProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		before := c.words(0, 5)
		h.settle()
		p.cut()
		c.words(5, 10) // lost
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		after := c.words(10, 15)
		c.ends()
		h.pass(10 * time.Second)
		h.reads("t1", "RUN", "says: "+before, "ERROR agent_link_lost", "RUN", "custom acp.gap", "says: "+after, "DONE success")
		p.silent()
	})
}

// An agent that asked while the link was away too long asks in the next Run, and hears the
// answer.
func TestLinkCut60sAgentAsksMeanwhile(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.says("m", "may I? ")
		c.asks("0", "call-1")
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		h.settle()
		asked := h.asked("t1")
		if len(asked) != 1 {
			t.Fatalf("open: %v", asked)
		}
		s := h.answer("t1", asked[0], "allow_once")
		if said := want[*acp.SessionPermission](p); said.RequestID != "0" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		c.says("m", "thanks")
		c.ends()
		s.rest()
		h.reads("t1", "RUN", "ERROR agent_link_lost", "RUN", "says: may I? ", "calls execute", "calls request_permission", "DONE interrupt",
			"RUN", `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`, "says: thanks", "gets The agent ended without a result.", "DONE success")
		p.silent()
	})
}

// A message that comes before what was left is read: both are told, nothing twice.
func TestMessageBehindALeftPrompt(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.cut()
		c.s.rest()
		h.pass(15 * time.Second)
		p.link()
		s := h.post("t1", "again")
		sent := want[*acp.PromptSend](p)
		c.says("m", "old ")
		c.ends()
		p.say(update(c.run, sent.PromptID, chunk("m2", "new")))
		p.say((&conversation{run: c.run, prompt: sent.PromptID}).result())
		s.rest()
		h.settle()
		h.reads("t1", "RUN", "ERROR agent_link_lost", "RUN", "says: old ", "says: new", "DONE success")
		p.silent()
	})
}

// A proxy whose Agent only its token names serves it, also when the server is started anew.
func TestAgentThatOnlyATokenNames(t *testing.T) {
	inHouse(t, plan{agents: map[string]acpgateway.AgentConfig{}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "one ")
		h.settle()
		p.restart()
		p.link()
		c.says("m2", "two")
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "says: one ", "says: two", "DONE success")
		p.silent()
	})
}

// A permission that nobody decides: the agent hears its option to reject.
func TestPermissionExpires(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("0", "call-1")
		c.s.rest()
		h.pass(10*time.Minute + time.Second)
		if said := want[*acp.SessionPermission](p); said.Outcome != "selected" || *said.OptionID != "p-no" {
			t.Errorf("%+v", said)
		}
		c.ends()
		h.settle()
		h.reads("t1", "RUN", "calls execute", "calls request_permission", "DONE interrupt",
			"RUN", `gets {"status":"expired"}`, "gets The agent ended without a result.", "DONE success")
	})
}

// What only reads needs nobody: the agent hears its option to allow once, at once.
func TestPolicyDecidesForPeople(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		f := c.request("0", "call-1")
		f.Content = []byte(strings.NewReplacer(`"kind":"execute"`, `"kind":"read"`, "rm -rf x", "Read a.go", `{"cmd":"call-1"}`, `{"path":"a.go"}`).Replace(string(f.Content)))
		p.say(f)
		if said := want[*acp.SessionPermission](p); said.Outcome != "selected" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		c.says("m", "read it")
		c.ends()
		c.s.rest()
		if turn, err := h.store.Turn(h.t.Context(), store.System(), c.prompt); err != nil || turn.Status != store.TurnDone {
			t.Errorf("%+v %v", turn, err)
		}
		p.silent()
	})
}

// What says that it only reads, and names a command or a file elsewhere, is asked.
func TestLookingElsewhereIsAsked(t *testing.T) {
	for _, args := range []string{`{"cmd":"call-1"}`, `{"path":"/etc/passwd"}`, `{"path":"../secrets"}`} {
		t.Run(args, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := newProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				f := c.request("0", "call-1")
				f.Content = []byte(strings.NewReplacer(`"kind":"execute"`, `"kind":"read"`, "rm -rf x", "Read a.go", `{"cmd":"call-1"}`, args).Replace(string(f.Content)))
				p.say(f)
				c.s.rest()
				if asked := h.asked("t1"); len(asked) != 1 {
					t.Errorf("%s: asked %d times", args, len(asked))
				}
				p.silent()
			})
		})
	}
}

// Several permissions open at once are shown together and answered one by one.
func TestSeveralPermissions(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("0", "call-1")
		c.asks("1", "call-2")
		c.s.rest()
		asked := h.asked("t1")
		if len(asked) != 2 {
			t.Fatalf("open: %v", asked)
		}
		h.answer("t1", asked[1], "reject_once").rest()
		s := h.answer("t1", asked[0], "allow_once")
		said := map[string]string{}
		for range 2 {
			f := want[*acp.SessionPermission](p)
			said[string(f.RequestID)] = *f.OptionID
		}
		if said["0"] != "p-once" || said["1"] != "p-no" {
			t.Errorf("%v", said)
		}
		c.ends()
		s.rest()
		h.legal("t1", h.events("t1"))
		p.silent()
	})
}
