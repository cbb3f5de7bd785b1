package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// TestPromptAddressed: a message may be for another agent than the thread's own, by the URL, the body or a channel; all
// have the whole history with its authors; the policy is asked for each; and the thread stays its own agent's.
func TestPromptAddressed(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 8)
	answers := func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		var all []string
		for _, m := range c.Messages {
			all = append(all, strings.TrimSpace(m.Name+" "+m.Role)+": "+m.Content.String())
		}
		heard <- c.AgentID + " hears " + strings.Join(all, ", ")
		say(event(&agui.TextMessageStart{MessageID: "m" + c.TurnID, Role: agui.RoleAssistant}),
			event(&agui.TextMessageContent{MessageID: "m" + c.TurnID, Delta: "I, " + c.AgentID}))
	}
	h := newEnvWith(t, answers, plan{rules: "agents: [{agent: closed, user: somebody-else}, {agent: scripted}, {agent: other}]"})
	for _, id := range []string{"other", "closed"} {
		h.agents.Add(id, &scripted{script: answers})
	}
	prompt := func(run, query, member string) answer {
		body := strings.Replace(inputBody("T", run, run), `"threadId"`, member+`"threadId"`, 1)
		return h.do("POST", "/api/agui/chat"+query, body)
	}
	for i, step := range []struct{ query, member, heard string }{
		{"", "", "scripted hears user: R0"},
		{"?agent=other", "", "other hears user: R0, scripted assistant: I, scripted, user: R1"},
		{"", `"agent_id":"other",`, "other hears user: R0, scripted assistant: I, scripted, user: R1, other assistant: I, other, user: R2"},
		{"", "", "scripted hears user: R0, scripted assistant: I, scripted, user: R1, other assistant: I, other, user: R2, other assistant: I, other, user: R3"},
	} {
		if got := prompt(fmt.Sprint("R", i), step.query, step.member); got.status != http.StatusOK {
			t.Fatalf("%d: HTTP %d %s", i, got.status, got.body)
		}
		if got := <-heard; got != step.heard {
			t.Errorf("%d: %s\nwant %s", i, got, step.heard)
		}
		if i > 0 {
			continue
		}
		for _, refused := range []struct {
			query, member string
			status        int
			code          string
		}{{"?agent=nobody", "", 400, "agent_unknown"}, {"?agent=closed", "", 403, "agent_forbidden"}, {"", `"agent_id":7,`, 400, "invalid_body"}} {
			if got := prompt("X", refused.query, refused.member); got.status != refused.status || !strings.Contains(got.body, refused.code) {
				t.Errorf("%s%s: HTTP %d %s", refused.query, refused.member, got.status, got.body)
			}
		}
	}
	again := strings.Replace(inputBody("T", "R2", "R2"), `"runId":"R2"`, `"runId":"again"`, 1) // regenerate; no agent is named
	if got := h.do("POST", "/api/agui/chat", again); got.status != http.StatusOK {
		t.Fatalf("HTTP %d %s", got.status, got.body)
	}
	if got := <-heard; !strings.HasPrefix(got, "other hears") || !strings.HasSuffix(got, "user: R2") {
		t.Errorf("again: %s", got)
	}
	if got := h.do("GET", "/api/threads/T", "").body; !strings.Contains(got, `"agentId":"scripted"`) {
		t.Errorf("%s", got)
	}
	if got := h.do("GET", "/api/runs/R2", "").body; !strings.Contains(got, `"agentId":"other"`) {
		t.Errorf("%s", got)
	}
	ch := h.channel("")
	ch.send(`{"type":"agent_invoke","request_id":"C","session_id":"T","agent_id":"other","message":{"role":"user","content":"C"}}`)
	ch.until("done")
	if got := <-heard; !strings.HasPrefix(got, "other hears") {
		t.Error(got)
	}
}
