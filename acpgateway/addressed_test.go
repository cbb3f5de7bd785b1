package acpgateway_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
)

// address posts a message for one agent and takes its prompt.
func (p *fakeProxy) address(agent, thread, text string) *conversation {
	p.h.t.Helper()
	s := p.h.request(bridge.ChatRequest{ThreadID: thread, AgentID: agent, Messages: []agui.Message{
		{ID: uuid.NewString(), Role: "user", Content: agui.Text(text)},
	}})
	d := p.next()
	if open, ok := d.frame.(*wire.Open); ok {
		p.send(&wire.Opened{RunID: open.RunID, OK: true})
		d = p.next()
	}
	sent, ok := d.frame.(*wire.PromptSend)
	if !ok {
		p.h.t.Fatalf("wanted a prompt_send, got %s", d.raw)
	}
	return &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
}

// Two agents behind proxies, addressed in one thread: each has a run_id, a session and permissions of its own; the log is
// one, with the author of each message; either is taken up after a restart; and deleting the thread closes both.
func TestTwoAgentsOfOneThread(t *testing.T) {
	inEnv(t, plan{agents: map[string]acpgateway.AgentConfig{"dev": {}, "ops": {}}}, func(h *acpEnv) {
		dev := newProxy(h, "p1").link()
		ops := newProxy(h, "p2")
		ops.agent = "ops"
		ops.link()
		a := dev.address("dev", "t1", "Write it.")
		a.says("m", "Written.")
		a.ends()
		h.settle()
		session := h.session("t1")
		b := ops.address("ops", "t1", "Deploy it.")
		if a.run != session.ID || b.run == a.run || !strings.Contains(b.sent.Context, "Written.") {
			t.Fatalf("run_ids %s and %s of session %s, told %q", a.run, b.run, session.ID, b.sent.Context)
		}
		b.asks("0", "call-1")
		b.s.rest()
		ids := h.asked("t1")
		if approvals, err := h.store.OpenApprovals(h.t.Context(), store.System(), store.Page{}); err != nil || len(approvals) != 1 || approvals[0].AgentID != "ops" {
			t.Errorf("%+v %v", approvals, err)
		}
		h.answer("t1", ids[0], "allow_once")
		if said := want[*wire.SessionPermission](ops); said.RunID != b.run || said.Outcome != "selected" {
			t.Errorf("%+v", said)
		}
		b.says("m2", "Deploy")
		h.settle() // restarted in mid-answer
		dev.cut()
		ops.cut()
		h.restart()
		dev.link()
		ops.link()
		h.settle()
		b.says("m2", "ed.")
		b.ends()
		h.settle()
		c := dev.address("", "t1", "And now?") // the thread's own
		if c.run != a.run || c.sent.SessionID != agentSession {
			t.Errorf("%+v", c.sent)
		}
		c.says("m3", "Done.")
		c.ends()
		h.settle()
		var said []string
		names := map[string]string{}
		for _, raw := range h.events("t1") {
			ev, err := agui.Decode([]byte(raw))
			h.must(err)
			switch e := ev.(type) {
			case *agui.TextMessageStart:
				names[e.MessageID] = e.Name
			case *agui.TextMessageContent:
				said = append(said, names[e.MessageID]+": "+e.Delta)
			case *agui.RunError:
				t.Error(raw)
			}
		}
		if got := strings.Join(said, ", "); got != ": Written., ops: Deploy, ops: ed., : Done." {
			t.Errorf("%s", got)
		}
		h.must(h.sessions.Threads().Delete(h.t.Context(), h.who, "t1"))
		h.settle()
		for p, run := range map[*fakeProxy]string{dev: a.run, ops: b.run} {
			closed := false
			for _, d := range p.left() {
				f, ok := d.frame.(*wire.Close)
				closed = closed || ok && f.RunID == run
			}
			if !closed {
				t.Errorf("%s is not closed", run)
			}
		}
	})
}
