package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// TestReservedAgent: what stands for users' programs is no agent that anybody may talk to, call, queue for, register or serve
// by a proxy, and is refused like one that does not exist.
func TestReservedAgent(t *testing.T) {
	t.Parallel()
	got := make(chan called, 1)
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			patient, stop := context.WithTimeout(ctx, 5*time.Second)
			defer stop()
			got <- c.call(patient, call, bridge.ClientAgent, "hi")
			says(say, "done")
		},
	}, plan{})
	for name, answer := range map[string]answer{
		"chat": c.do("POST", "/api/agui/chat?agent=mcp", inputBody("T", "R", "hi")),
		"task": c.do("POST", "/v1/runs", `{"agent_id":"mcp","message":{"content":"x"}}`),
		"page": c.do("GET", "/api/agui/capabilities?agent=mcp", ""),
	} {
		if answer.status != http.StatusBadRequest || !strings.Contains(answer.body, `"agent_unknown"`) {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	if n := c.threads(); n != 0 {
		t.Errorf("%d threads were begun", n)
	}
	c.chat("t", "r", "go")
	if no := <-got; no.status != http.StatusBadRequest || !strings.Contains(no.body, `"agent_unknown"`) {
		t.Errorf("invoke: %d %s %v", no.status, no.body, no.frames)
	}
	if is := c.tree("r").String(); is != "scripted DONE" {
		t.Errorf("the tree is %s", is)
	}
}

// TestReservedAgentOfPrograms: a prompt in the thread of a user's program, which names no agent, is none of its calls.
func TestReservedAgentOfPrograms(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, `{"risk":"low","verdict":"allow"}`, func(*toolEnv, bridge.Call) string { return "" })
	_, err := w.bridge.ClientCalls().Invoke(t.Context(), store.LocalPrincipal(), bridge.ClientRequest{ThreadID: "T", Client: "zed", Name: "cut", Args: []byte(`{"wood":"oak"}`)})
	if err != nil {
		t.Fatal(err)
	}
	session, err := w.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	run, err := w.store.LastRun(t.Context(), scope(), session.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.do("POST", "/api/runs/"+run.ID+"/cancel", "{}")
	w.idle("T")
	if got := w.do("POST", "/api/agui/chat", inputBody("T", "R", "and you?")); got.status != http.StatusBadRequest || !strings.Contains(got.body, `"agent_unknown"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestReservedAgentTaken: its id is no program's and no proxy's.
func TestReservedAgentTaken(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, nil)
	if got := d.registers("planner", bridge.ClientAgent, "http://127.0.0.1:1", ""); got.status != http.StatusConflict || !strings.Contains(got.body, `"agent_id_taken"`) {
		t.Errorf("registered: %d %s", got.status, got.body)
	}
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{proxies: registers(keys)})
	boot, err := keys.IssueBootstrap(auth.ProxyClaims{ProxyID: "p", AgentID: bridge.ClientAgent}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for id, token := range map[string]string{bridge.ClientAgent: bootstrapFor(t, keys, bridge.ClientAgent), "p": boot} {
		if got := h.do("POST", registerPath, fmt.Sprintf(`{"proxyId":%q}`, id), bootHeader, token); got.status != http.StatusConflict || !strings.Contains(got.body, `"AGENT_TAKEN"`) {
			t.Errorf("the proxy %s: %d %s", id, got.status, got.body)
		}
	}
	if free, err := acpgateway.NewRegistry(h.store).ClaimAgent(t.Context(), bridge.ClientAgent); err != nil || free {
		t.Errorf("a proxy's link: %t %v", free, err)
	}
}
