package agents_test

import (
	"slices"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestOurProxyWithOpencode goes through a day of one agent behind our proxy, as any gateway
// that speaks the contract sees it.
func TestOurProxyWithOpencode(t *testing.T) {
	m := newModel(t)
	o := newOpencode(t, m)
	g := behind(t, o)
	var session string

	// Each step stands on the one before.
	step := func(name string, do func(t *testing.T)) {
		if !t.Failed() {
			t.Run(name, do)
		}
	}
	step("acp_open starts it", func(t *testing.T) {
		g.t = t
		g.send(map[string]any{"type": "acp_open", "run_id": "r"})
		if opened := next[*wire.Opened](g); !opened.OK || !strings.Contains(string(opened.Agent), "loadSession") {
			t.Fatalf("%+v", opened)
		}
	})
	step("text arrives in pieces", func(t *testing.T) {
		g.t = t
		g.prompt("p1", "", "say hello to the whole world")
		session = g.ended("p1", "end_turn").SessionID
		if got := g.texts("agent_message_chunk", false); got != "hello to the whole world" {
			t.Errorf("%q from\n%s", got, g.updates())
		}
	})
	step("thoughts are no text", func(t *testing.T) {
		g.t = t
		g.prompt("p2", session, "think about rivers")
		g.ended("p2", "end_turn")
		if got := g.texts("agent_thought_chunk", false); got != "about rivers" {
			t.Errorf("%q from\n%s", got, g.updates())
		}
		if got := g.texts("agent_message_chunk", false); got != "thought" {
			t.Errorf("%q", got)
		}
	})
	step("a file is written after allow_once", func(t *testing.T) {
		g.t = t
		g.prompt("p3", session, "write yes.txt with some words")
		q := g.question()
		if q.PromptID == nil || *q.PromptID != "p3" || q.SessionID != session {
			t.Errorf("%+v", q)
		}
		o.wroteNot(t, "yes.txt")
		g.answer(q, "allow_once")
		g.ended("p3", "end_turn")
		o.wrote(t, "yes.txt", "some words")
		if calls := g.calls(); len(calls) != 1 || calls[0].Status != "completed" {
			t.Errorf("%+v", calls)
		}
		if got := g.texts("agent_message_chunk", false); got != "I write. done" {
			t.Errorf("%q", got)
		}
	})
	step("and not after reject_once", func(t *testing.T) {
		g.t = t
		g.prompt("p4", session, "write no.txt with some words")
		g.answer(g.question(), "reject_once")
		g.ended("p4", "end_turn")
		o.wroteNot(t, "no.txt")
		// opencode ends its turn over a refusal, without asking the model what to say of it.
		if calls := g.calls(); len(calls) != 1 || calls[0].Status != "failed" {
			t.Errorf("%+v\n%s", calls, g.updates())
		}
	})
	step("a command runs after allow_once", func(t *testing.T) {
		g.t = t
		g.prompt("p5", session, "run echo from the shell > shell.txt")
		g.answer(g.question(), "allow_once")
		g.ended("p5", "end_turn")
		o.wrote(t, "shell.txt", "from the shell\n")
	})
	step("session_cancel ends a prompt whose question is open", func(t *testing.T) {
		g.t = t
		g.prompt("p6", session, "write never.txt with some words")
		g.question()
		g.send(map[string]any{"type": "session_cancel", "run_id": "r", "control_id": "c1", "session_id": session})
		g.ended("p6", "cancelled")
		o.wroteNot(t, "never.txt")
	})
	step("session_cancel ends a prompt that talks", func(t *testing.T) {
		g.t = t
		g.prompt("p7", session, "slow")
		for !strings.HasPrefix(g.texts("agent_message_chunk", false), "1 2 ") {
			next[*wire.ACPUpdate](g)
		}
		g.send(map[string]any{"type": "session_cancel", "run_id": "r", "control_id": "c2", "session_id": session})
		g.ended("p7", "cancelled")
	})
	step("the same session goes on", func(t *testing.T) {
		g.t = t
		g.prompt("p8", session, "recall")
		g.ended("p8", "end_turn")
		if got := g.texts("agent_message_chunk", false); !strings.HasPrefix(got, "You said: say hello to the whole world; ") {
			t.Errorf("%q", got)
		}
	})
	step("acp_close ends it", func(t *testing.T) {
		g.t = t
		g.send(map[string]any{"type": "acp_close", "run_id": "r"})
		next[*wire.Exit](g)
		if closed := next[*wire.Closed](g); !closed.OK {
			t.Errorf("%+v", closed)
		}
		g.stop()
	})
	step("a new proxy takes up the session, and nothing is repeated", func(t *testing.T) {
		g := behind(t, o)
		g.prompt("p9", session, "recall")
		if r := g.ended("p9", "end_turn"); r.SessionID != session || r.SessionCreated || r.SessionRecreatedFrom != nil {
			t.Errorf("%+v", r)
		}
		for _, kind := range []string{"user_message_chunk", "agent_message_chunk"} {
			if got := g.texts(kind, true); got != "" {
				t.Errorf("%s repeated: %q", kind, got)
			}
		}
		if got := g.texts("agent_message_chunk", false); !strings.HasPrefix(got, "You said: say hello to the whole world; ") {
			t.Errorf("%q from\n%s", got, g.updates())
		}
		asked := m.requests()
		if users := asked[len(asked)-1].users(); !slices.Contains(users, "think about rivers") {
			t.Errorf("the model heard %q", users)
		}
	})
}
