package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// mcpOf is a client of /mcp with a token, that counts its requests from 1 and can ask its person.
type mcpOf struct {
	h     *env
	token string
}

// calls makes a call; more stands behind the arguments.
func (m mcpOf) calls(args, more string, header ...string) answer {
	return m.h.do("POST", "/mcp", m.body(args, more), append(m.header(), header...)...)
}

func (m mcpOf) body(args, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cut","arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}%s}}`, args, more)
}

func (m mcpOf) header() []string {
	return append(bearerOf(m.token), "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "cut")
}

// TestMCPForeign: what names another user's call, client or request opens nothing: another's question is not answered, another's
// call is not gone on with, and another's request is not given up (S11, S21).
func TestMCPForeign(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	h := newEnvWith(t, saysN(1), p)
	var ran atomic.Int64
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok":true}`)
	}))
	t.Cleanup(tool.Close)
	of := func(tenant, user string) mcpOf {
		return mcpOf{h, issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: tenant, UserClaims: auth.UserClaims{User: user, Roles: []string{auth.RoleUser, auth.RoleAdmin}}}, time.Hour)}
	}
	ann, bob, namesake := of("acme", "ann"), of("acme", "bob"), of("globex", "ann")
	for _, admin := range []mcpOf{ann, namesake} {
		if got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":{"verdict":"require_approval"},"schema":{"type":"object"}}`, tool.URL),
			bearerOf(admin.token)...); got.status != 200 {
			t.Fatal(got)
		}
	}
	const args = `{"wood":"oak"}`
	asked := func(got answer) (state, id string) {
		t.Helper()
		for _, f := range stream(t, got.body) {
			var m struct {
				Result struct {
					RequestState string                     `json:"requestState"`
					Meta         map[string]json.RawMessage `json:"_meta"`
				}
			}
			if json.Unmarshal([]byte(f.data), &m) == nil && m.Result.RequestState != "" {
				state, _, _ := strings.Cut(m.Result.RequestState, ".")
				return m.Result.RequestState, state
			}
		}
		t.Fatalf("no question: %d %s", got.status, got.body)
		return "", ""
	}
	state, id := asked(ann.calls(args, ""))
	yes := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":"approve"}}}`, state)
	for name, other := range map[string]mcpOf{"a colleague": bob, "a namesake": namesake} {
		if own, theirs := asked(other.calls(args, yes)); own == state || theirs == id {
			t.Errorf("%s goes on with her call", name)
		}
		for _, thread := range []string{"mcp", id} {
			if got := h.do("GET", "/api/threads/"+thread+"/messages", "", bearerOf(other.token)...); strings.Contains(got.body, id) {
				t.Errorf("%s reads it: %s", name, got.body)
			}
		}
	}
	if a, err := h.store.Approval(t.Context(), store.System(), id); err != nil || a.Status != store.ApprovalPending || ran.Load() != 0 {
		t.Errorf("her question is %s %v, the tool ran %d times", a.Status, err, ran.Load())
	}
	// Other arguments under her own state are another call.
	if other, another := asked(ann.calls(`{"wood":"gold"}`, yes)); other == state || another == id {
		t.Error("other arguments go on with her call")
	}

	// A request that is held is given up by its own client alone, whatever name another one shows.
	const client = "Mcp-Session-Id"
	held := make(chan answer, 1)
	go func() { held <- ann.calls(args, fmt.Sprintf(`,"requestState":%q`, state), client, "N1") }()
	time.Sleep(300 * time.Millisecond)
	for _, other := range []mcpOf{bob, namesake} {
		h.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
			append(bearerOf(other.token), "Accept", "application/json, text/event-stream", client, "N1")...)
	}
	select {
	case got := <-held:
		t.Fatalf("another gave up her request: %d %s", got.status, got.body)
	case <-time.After(300 * time.Millisecond):
	}
	if got := h.do("POST", "/api/approvals/"+id+"/decision", `{"decision":"approve"}`, bearerOf(ann.token)...); got.status != 200 {
		t.Fatal(got)
	}
	if got := <-held; !strings.Contains(got.body, `"ok":true`) || ran.Load() != 1 {
		t.Errorf("%s, %d times", got.body, ran.Load())
	}

	// A reason has no more than over the other surfaces: it is kept with the question and in the audit.
	state, id = asked(ann.calls(`{"wood":"elm"}`, ""))
	no := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":"reject","reason":%q}}}`, state, strings.Repeat("ä", 300_000))
	got := ann.calls(`{"wood":"elm"}`, no)
	if a, err := h.store.Approval(t.Context(), store.System(), id); err != nil || a.Status != store.ApprovalRejected || a.Reason != strings.Repeat("ä", 2000) {
		t.Errorf("the question is %s %v, with a reason of %d bytes; %.200s", a.Status, err, len(a.Reason), got.body)
	}
}

// TestMCPBesideAnAgent: a thread of a user's programs may have a Turn of another agent, which a message named. A call of a program
// is none of that Turn: it would be judged as the agent's, by rules and grants for it, and the agent could read its result.
func TestMCPBesideAnAgent(t *testing.T) {
	t.Parallel()
	tokens, release := make(chan string, 1), make(chan bool)
	w := newToolEnvWith(t, plan{}, `{"risk":"low","verdict":"allow"}`, func(_ *toolEnv, c bridge.Call) string {
		tokens <- c.RunToken
		<-release
		return ""
	})
	invoke := func() (store.ToolCall, error) {
		return w.bridge.ClientCalls().Invoke(t.Context(), store.LocalPrincipal(), bridge.ClientRequest{ThreadID: "T", Client: "zed", Name: "cut", Args: []byte(`{"wood":"oak"}`)})
	}
	first, err := invoke()
	if err != nil {
		t.Fatal(err)
	}
	w.do("POST", "/api/runs/"+first.TurnID+"/cancel", "{}")
	w.idle("T")
	chatted := make(chan answer, 1)
	go func() { chatted <- w.do("POST", "/api/agui/chat?agent=scripted", inputBody("T", "R", "and you?")) }()
	select {
	case token := <-tokens:
		call, err := invoke()
		if err == nil {
			turn, err := w.store.Turn(t.Context(), store.System(), call.TurnID)
			t.Errorf("the call is one of %s (%v), which reads %v", turn.AgentID, err, w.agentCall(token, "/v1/tool_calls/"+call.ID+":wait?timeout_ms=1", "{}"))
		} else if fault.CodeOf(err) != bridge.RefusedThreadsAgent {
			t.Error(err)
		}
	case got := <-chatted:
		t.Fatalf("the message is answered %d %s", got.status, got.body)
	}
	close(release)
	<-chatted
	if _, err := invoke(); err != nil {
		t.Errorf("once the agent is done: %v", err)
	}
}

// TestS68MCPTakesNoCookie: programs call /mcp, with a token. A browser's session opens it with or without the page's secret as
// little as none.
func TestS68MCPTakesNoCookie(t *testing.T) {
	t.Parallel()
	h, token := guarded(t, plan{})
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	session := h.signedIn(token("ada"))
	for name, header := range map[string][]string{"the cookie": session.cookie(), "with the secret": session.all(), "a page of ours": session.all("Origin", h.URL, "Sec-Fetch-Site", "same-origin")} {
		if got := h.do("POST", "/mcp", call, append(header, "Accept", "application/json, text/event-stream")...); got.status != 401 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := h.do("POST", "/mcp", call, append(bearerOf(token("ada")), "Accept", "application/json, text/event-stream")...); got.status != 200 {
		t.Errorf("a token: %d %s", got.status, got.body)
	}
}
