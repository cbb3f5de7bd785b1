package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
)

// What real proxies of the contract do (facts §3), and what becomes of it.

// An old proxy passes nothing on while a permission is open; all of it comes then.
func TestOldProxyBlocksUpdatesWhileAsked(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "may I? ")
		c.asks("0", "call-1")
		c.s.rest()
		c.update(tool("tool_call_update", "call-1", `"status":"completed","content":[{"type":"content","content":{"type":"text","text":"removed"}}]`))
		c.says("m", "thanks")
		c.ends()
		h.pass(5 * time.Minute)
		s := h.answer("t1", h.asked("t1")[0], "allow_once")
		said := want[*acp.SessionPermission](p)
		if said.RequestID != "0" || said.Outcome != "selected" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		s.rest()
		h.reads("t1", "RUN", "says: may I? ", "calls execute", "calls request_permission", "DONE interrupt",
			"RUN", `gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}`, "gets removed", "says: thanks", "DONE success")
		p.silent()
	})
}

// A prompt_result that a cut link swallowed: the Run ends once, at the grace after the link
// came back and nothing comes, and the prompt is cancelled.
func TestOldProxyLosesPromptResult(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "done")
		h.settle()
		p.cut()
		c.ends() // lost
		h.pass(2 * time.Second)
		back := time.Now()
		p.link()
		c.s.rest()
		if took := time.Since(back); took < 45*time.Second || took > 46*time.Second {
			t.Errorf("the Run ended %v after the link was back", took)
		}
		h.reads("t1", "RUN", "says: done", "custom acp.gap", "ERROR agent_link_lost")
		want[*acp.SessionCancel](p)
		// The real one answers the cancel of what it does not have, and nothing else.
		h.pass(5 * time.Second)
		p.silent()
	})
}

// A prompt that was sent when the link was back was not lost in the cut, however long its agent
// thinks; nor is one of which anything came since.
func TestOldProxySilentBehindACut(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*acp.Open](p)
		p.cut()
		h.pass(2 * time.Second)
		p.link()
		want[*acp.Open](p)
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		sent := want[*acp.PromptSend](p)
		c := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		h.pass(10 * time.Minute)
		c.says("m", "one ")
		p.cut()
		h.pass(2 * time.Second)
		p.link()
		h.pass(44 * time.Second)
		c.says("m", "two")
		h.pass(10 * time.Minute)
		c.ends()
		s.rest()
		h.reads("t1", "RUN", "says: one ", "custom acp.gap", "two", "DONE success")
		p.silent()
	})
}

// Request ids begin again with every start of an agent. Each request is a Question of its
// own, and its answer goes to it alone.
func TestOldProxyRepeatsRequestIDs(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("0", "call-1")
		c.s.rest()
		first := h.asked("t1")[0]
		s := h.answer("t1", first, "reject_once")
		if said := want[*acp.SessionPermission](p); said.RequestID != "0" || *said.OptionID != "p-no" {
			t.Errorf("%+v", said)
		}
		c.asks("2", "call-2")
		s.rest()
		s = h.answer("t1", h.asked("t1")[0], "allow_once")
		if said := want[*acp.SessionPermission](p); said.RequestID != "2" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		p.say(exitOf(c.run, nil))
		c.fails("Error: agent closed")
		s.rest()

		c = p.begin("t1", "again")
		p.say(signal(c.run, `{"type":"transport_connected","instance_name":"i","at":"now"}`))
		c.asks("0", "call-1")
		c.s.rest()
		again := h.asked("t1")
		if len(again) != 1 || again[0] == first {
			t.Fatalf("open: %v, the first was %s", again, first)
		}
		s = h.answer("t1", again[0], "allow_once")
		if said := want[*acp.SessionPermission](p); said.RequestID != "0" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		c.ends()
		s.rest()
		p.silent()
	})
}

// The same, when the restarted agent asks within the same prompt.
func TestOldProxyRepeatsRequestIDsInOnePrompt(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("0", "call-1")
		c.s.rest()
		s := h.answer("t1", h.asked("t1")[0], "reject_once")
		want[*acp.SessionPermission](p)
		p.say(signal(c.run, `{"type":"transport_connected","instance_name":"i","at":"now"}`))
		c.asks("0", "call-2")
		s.rest()
		if open := h.asked("t1"); len(open) != 1 {
			t.Fatalf("open: %v", open)
		}
		s = h.answer("t1", h.asked("t1")[0], "allow_once")
		if said := want[*acp.SessionPermission](p); said.RequestID != "0" || *said.OptionID != "p-once" {
			t.Errorf("%+v", said)
		}
		c.ends()
		s.rest()
	})
}

// An agent that is started again loads its session inside the prompt, and an old proxy passes
// the replay on under the prompt's id. The log has it already.
func TestOldProxyReplaysSessionLoad(t *testing.T) {
	for name, ids := range map[string][2]string{"with ids": {"m1", "m2"}, "without ids": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := oldProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				c.says(ids[0], "hel")
				c.says(ids[0], "lo")
				c.update(tool("tool_call", "call-1", `"title":"ls","kind":"execute","status":"in_progress","rawInput":{"cmd":"ls"}`))
				c.update(tool("tool_call_update", "call-1", `"status":"completed"`))
				c.ends()
				c.s.rest()
				p.say(exitOf(c.run, nil))
				h.settle()

				c = p.begin("t1", "again")
				if c.sent.SessionID != agentSession {
					t.Errorf("session_id %q", c.sent.SessionID)
				}
				user := `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"`
				c.update(user + `hi"}}`)
				c.says(ids[0], "hello")
				c.update(tool("tool_call", "call-1", `"title":"ls","kind":"execute","status":"completed","rawInput":{"cmd":"ls"}`))
				c.says(ids[1], "as before")
				c.ends()
				c.s.rest()
				h.reads("t1", "RUN", "says: hello", "calls execute", "gets completed", "DONE success", "RUN", "says: as before", "DONE success")
			})
		})
	}
}

// After the server's restart too: the real server has its agent load the session again.
func TestSessionLoadAfterGatewayRestart(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m1", "hello")
		c.ends()
		c.s.rest()
		h.settle()
		p.restart()
		p.link()
		c = p.begin("t1", "again")
		if c.sent.SessionID != agentSession {
			t.Errorf("session_id %q", c.sent.SessionID)
		}
		c.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"}}`)
		c.says("m1", "hello")
		c.says("m2", "as before")
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: hello", "DONE success", "RUN", "says: as before", "DONE success")
	})
}

// An agent that could not load its session begins a new one, and may count its messages anew.
func TestNewSessionCountsMessagesAnew(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m1", "hello")
		c.ends()
		c.s.rest()
		p.say(exitOf(c.run, nil))
		h.settle()
		c = p.begin("t1", "again")
		other := "S2"
		p.say(&acp.ACPUpdate{RunID: c.run, PromptID: &c.prompt, SessionID: &other, Update: []byte(chunk("m1", "hello"))})
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: hello", "DONE success", "RUN", "says: hello", "DONE success")
	})
}

// prompt_result ok without stop_reason is a finish.
func TestPromptResultWithoutStopReason(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "done")
		p.raw(`{"type":"prompt_result","run_id":"` + c.run + `","prompt_id":"` + c.prompt + `","ok":true}`)
		c.s.rest()
		h.reads("t1", "RUN", "says: done", "DONE success")
	})
}

// acp_opened ok:false shows the chain of causes, and what to do when the command is missing.
func TestOpenedNotOK(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		run := want[*acp.Open](p).RunID
		p.say(signal(run, `{"type":"text","text":"[agent:stderr] bwrap: execvp codex-acp: No such file or directory"}`))
		p.say(signal(run, `{"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":null,"status":"error","last_seen_at":"now","last_error":"exited at once"}`))
		code := 1
		p.say(exitOf(run, &code))
		p.say(&acp.Opened{RunID: run, Error: "Error: agent closed"})
		events := s.rest()
		last := events[len(events)-1]
		for _, cause := range []string{"agent_command_not_found", "codex-acp", "agent closed", "code 1", "exited at once", "Install it"} {
			if !strings.Contains(last, cause) {
				t.Errorf("no %q in %s", cause, last)
			}
		}
		h.settle()
		if row := h.instance("t1"); row.LastError != "exited at once" || row.Provider != "bwrap" {
			t.Errorf("%+v", row)
		}
		p.silent()
	})
}

// prompt_result ok:false shows the chain of causes, and is one RUN_ERROR.
func TestPromptResultNotOK(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.say(signal(c.run, `{"type":"text","text":"[proxy:error] model overloaded"}`))
		p.say(signal(c.run, `{"type":"text","text":"[agent:stderr] 529 from upstream"}`))
		c.fails("Error: model overloaded")
		events := c.s.rest()
		last := events[len(events)-1]
		for _, cause := range []string{"agent_error", "model overloaded", "529 from upstream"} {
			if !strings.Contains(last, cause) {
				t.Errorf("no %q in %s", cause, last)
			}
		}
		h.reads("t1", "RUN", "custom proxy.text", "ERROR agent_error")
		// The agent lives: the next prompt needs no acp_open.
		s := h.post("t1", "again")
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
	})
}

// init_step is a step of the Run, init_result ends them all.
func TestInitStepsAreSteps(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		run := want[*acp.Open](p).RunID
		p.say(signal(run, `{"type":"init_step","stage":"clone","status":"start"}`))
		p.say(signal(run, `{"type":"init_step","stage":"clone","status":"done"}`))
		p.say(signal(run, `{"type":"init_step","stage":"install","status":"start"}`))
		p.say(signal(run, `{"type":"init_result","ok":true,"exitCode":0}`))
		p.say(&acp.Opened{RunID: run, OK: true})
		sent := want[*acp.PromptSend](p)
		p.say((&conversation{run: run, prompt: sent.PromptID}).result())
		s.rest()
		h.reads("t1", "RUN", "step init:clone", "step done init:clone", "step init:install", "step done init:install", "DONE success")
	})
}

// A request for permission with a number for an id is answered with the number, and one with a
// text with the text; after a restart too.
func TestRequestIDsAreAnsweredAsTheyCame(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		for _, id := range []string{`7`, `"7"`} {
			p.say(signal(c.run, `{"type":"permission_request","request_id":`+id+`,"session_id":"`+agentSession+`","prompt_id":"`+c.prompt+`","tool_call":{"toolCallId":"call-`+strings.Trim(id, `"`)+`"},
				"options":[{"optionId":"p-once","kind":"allow_once","name":"Allow"}]}`))
			h.settle()
			h.answer("t1", h.asked("t1")[0], "allow_once")
			if d := p.next(); !strings.Contains(d.raw, `"request_id":`+id+`,`) {
				t.Errorf("%s is answered by %s", id, d.raw)
			}
			h.settle()
		}
	})
}

// The context goes to an agent once: with the prompts of a session that does not exist yet, and
// again to an agent that was started anew and may not have the session.
func TestContextIsSentOnce(t *testing.T) {
	agents := map[string]acpgateway.AgentConfig{"dev": {SystemContext: "Be brief."}}
	inHouse(t, plan{agents: agents}, func(h *house) {
		p := oldProxy(h, "p1").link()
		prompt := func(want bool) *conversation {
			c := p.begin("t1", "hi")
			if has := strings.Contains(c.sent.Context, "Be brief."); has != want || !want && c.sent.Context != "" {
				t.Errorf("context %q, wanted %v", c.sent.Context, want)
			}
			return c
		}
		end := func(c *conversation) {
			c.ends()
			c.s.rest()
		}
		c := prompt(true)
		c.fails("Error: no key")
		c.s.rest()
		end(prompt(true)) // it has no session yet
		end(prompt(false))
		c = prompt(false)
		end(c)
		p.say(exitOf(c.run, nil))
		h.settle()
		end(prompt(true))
		end(prompt(false))
	})
}
