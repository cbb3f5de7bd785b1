package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
)

// Without a proxy a message fails at once.
func TestOffline(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		began := time.Now()
		h.post("t1", "hi").rest()
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %v", took)
		}
		h.reads("t1", "RUN", "ERROR agent_offline")
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "again")
		c.ends()
		c.s.rest()
		p.cut()
		h.post("t1", "and again").rest()
		h.reads("t1", "RUN", "ERROR agent_offline", "RUN", "DONE success", "RUN", "ERROR agent_offline")
	})
}

// max_concurrent counts agents: one that rests is closed to make room, else a message fails
// with agent_busy.
func TestMaxConcurrent(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1")
		p.most = 2
		p.link()
		a := p.begin("a", "hi")
		h.pass(time.Second)
		b := p.begin("b", "hi")
		h.post("c", "hi").rest()
		h.reads("c", "RUN", "ERROR agent_busy")
		p.silent()
		a.ends()
		a.s.rest()
		h.settle()
		s := h.post("d", "hi")
		if closed := want[*acp.Close](p); closed.RunID != a.run {
			t.Errorf("closed %+v", closed)
		}
		open := want[*acp.Open](p)
		p.say(exitOf(a.run, nil), &acp.Closed{RunID: a.run, OK: true}, &acp.Opened{RunID: open.RunID, OK: true})
		sent := want[*acp.PromptSend](p)
		// The Session whose agent was closed gets another when there is room.
		h.post("a", "again").rest()
		h.reads("a", "RUN", "DONE success", "RUN", "ERROR agent_busy")
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
		b.ends()
		b.s.rest()
		s = h.post("a", "once more")
		want[*acp.Close](p)
		want[*acp.Open](p)
		p.say(&acp.Opened{RunID: a.run, OK: true})
		sent = want[*acp.PromptSend](p)
		p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		s.rest()
		p.silent()
	})
}

// A new Session goes to the least busy of several proxies with its Agent, and stays there.
func TestLeastBusyProxy(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p1, p2 := oldProxy(h, "p1").link(), newProxy(h, "p2").link()
		first := p1.begin("a", "hi")
		second := p2.begin("b", "hi")
		second.ends()
		second.s.rest()
		// p2's agent rests, but is there: both have one. The tie goes by name.
		third := p1.begin("c", "hi")
		fourth := p2.begin("d", "hi")
		for _, c := range []*conversation{first, third, fourth} {
			c.ends()
			c.s.rest()
		}
		// Whatever is busy now, each stays where its workspace is.
		p1.begin("a", "again").ends()
		p2.begin("b", "again").ends()
		h.settle()
		if row := h.instance("b"); row.ProxyID != "p2" || row.InstanceName != "tuixiu-run-"+h.session("b").ID {
			t.Errorf("%+v", row)
		}
		p2.cut()
		h.post("b", "where are you?").rest()
		h.reads("b", "RUN", "DONE success", "RUN", "DONE success", "RUN", "ERROR agent_offline")
		// After a restart too.
		h.restart()
		p1.closed()
		p1.link()
		p2.link()
		c := p2.begin("b", "and now?")
		c.ends()
		c.s.rest()
		p1.silent()
		p2.silent()
	})
}

// An agent that rests is closed; the next prompt opens another, with the old session.
func TestIdleAgentIsClosed(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{Idle: 5 * time.Minute}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		h.pass(4 * time.Minute)
		p.silent()
		h.pass(2 * time.Minute)
		want[*acp.Close](p)
		p.say(exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
		h.pass(10 * time.Minute)
		p.silent()
		if row := h.instance("t1"); row.Status != "closed" || row.ACPSessionID != agentSession {
			t.Errorf("%+v", row)
		}
		s := h.post("t1", "again")
		want[*acp.Open](p)
		p.say(&acp.Opened{RunID: c.run, OK: true})
		if sent := want[*acp.PromptSend](p); sent.SessionID != agentSession {
			t.Errorf("%+v", sent)
		} else {
			p.say((&conversation{run: sent.RunID, prompt: sent.PromptID}).result())
		}
		s.rest()
		h.settle()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// A thread that is deleted needs no agent: acp_close.
func TestDeletedThreadIsClosed(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		deleted := make(chan error, 1)
		go func() { deleted <- h.sessions.Delete(h.t.Context(), h.who, "t1") }()
		want[*acp.SessionCancel](p)
		h.must(<-deleted)
		want[*acp.Close](p)
		if f := want[*acp.SandboxControl](p); f.Action != "remove_workspace" || f.RunID != c.run || f.InstanceName != "tuixiu-run-"+c.run {
			t.Errorf("%+v", f)
		}
		p.say(c.stopped(), exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
		h.settle()
		p.silent()
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}
