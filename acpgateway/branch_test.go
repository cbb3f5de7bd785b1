package acpgateway_test

import (
	"strings"
	"testing"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/bridge"
)

// TestBranchBeginsASession: an agent cannot take back what it remembers, so a message that is edited, or answered again,
// begins a session that is told the history of its branch and nothing of what was replaced.
func TestBranchBeginsASession(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		post := func(messages ...string) *conversation {
			h.t.Helper()
			req := bridge.ChatRequest{ThreadID: "t1"}
			for _, m := range messages {
				id, text, _ := strings.Cut(m, ":")
				req.Messages = append(req.Messages, agui.Message{ID: id, Role: "user", Content: agui.Text(text)})
			}
			s := h.request(req)
			d := p.next()
			if open, ok := d.frame.(*acp.Open); ok {
				p.say(&acp.Opened{RunID: open.RunID, OK: true})
				d = p.next()
			}
			sent := d.frame.(*acp.PromptSend)
			return &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		}
		one := post("u1:first")
		one.says("m1", "said first")
		one.ends()
		one.s.rest()
		two := post("u2:second")
		if two.sent.SessionID != agentSession {
			t.Fatalf("session_id %q", two.sent.SessionID)
		}
		two.says("m2", "said second")
		two.ends()
		two.s.rest()
		h.settle()

		again := post("u2:second")
		if again.sent.SessionID != "" || !strings.Contains(again.sent.Context, "said first") || strings.Contains(again.sent.Context, "said second") {
			t.Errorf("the branch begins in session %q with the context %q", again.sent.SessionID, again.sent.Context)
		}
		h.settle()
		left := agentSession // what the old session still says names it no more
		end := again.result()
		end.SessionID, end.SessionCreated = "S-branch", true
		p.say(&acp.ACPUpdate{RunID: again.run, PromptID: &again.prompt, SessionID: &left, Update: []byte(`{"sessionUpdate":"session_created","content":{"type":"session_created"}}`)})
		p.say(end)
		again.s.rest()
		h.settle()
		if row := h.instance("t1"); row.ACPSessionID != "S-branch" {
			t.Errorf("%+v", row)
		}
		on := post("u3:third")
		if on.sent.SessionID != "S-branch" {
			t.Errorf("session_id %q", on.sent.SessionID)
		}
		on.ends()
		on.s.rest()
	})
}
