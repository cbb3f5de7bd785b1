package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// keyed is a server that takes tokens, and the keys that make them.
func keyed(t *testing.T) (plan, *auth.Keys) {
	t.Helper()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return plan{auth: auth.Typed(keys)}, keys
}

func issue(t *testing.T, keys *auth.Keys, c auth.Claims, ttl time.Duration) string {
	t.Helper()
	token, err := keys.Issue(c, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// hello is what a hello of these two comes to: the code of its error, or "".
func (h *env) hello(user, key string) (code string) {
	h.t.Helper()
	conn, _, err := h.dial("/ws/ingress")
	if err != nil {
		h.t.Fatal(err)
	}
	c := &channelClient{h.t, conn}
	c.send(fmt.Sprintf(`{"type":"hello","user_id":%q,"api_key":%q}`, user, key))
	c.send(`{"type":"none"}`)
	if code = c.next().Code; code == "unknown_type" {
		return ""
	}
	return code
}

// TestIngressOnlyChannelsNameUsers: a channel must, others may name themselves alone, and one user's messages do not reach
// another.
func TestIngressOnlyChannelsNameUsers(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	h := newEnvWith(t, asks, p)
	channelKey := issue(t, keys, auth.Claims{Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "im"}}, time.Hour)
	annKey := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann"}}, time.Hour)
	approver := issue(t, keys, auth.Claims{Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "eve"}}, time.Hour)
	for _, c := range []struct{ user, key, code string }{
		{"ann", channelKey, ""}, {"", channelKey, "forbidden_user"}, {"system", channelKey, "forbidden_user"},
		{"a\tb", channelKey, "forbidden_user"},
		{"ann", annKey, ""}, {"", annKey, ""}, {"bob", annKey, "forbidden_user"},
		{"eve", approver, "unauthorized"}, {"ann", channelKey + "x", "unauthorized"}, {"ann", "a.b.c", "unauthorized"}, {"ann", "key", "unauthorized"},
	} {
		if got := h.hello(c.user, c.key); got != c.code {
			t.Errorf("%q with %.20s…: %q, want %q", c.user, c.key, got, c.code)
		}
	}
	say := func(user string) *channelClient {
		conn, _, err := h.dial("/ws/ingress")
		if err != nil {
			t.Fatal(err)
		}
		c := &channelClient{t, conn}
		c.send(fmt.Sprintf(`{"type":"hello","user_id":%q,"api_key":%q}`, user, channelKey))
		return c
	}
	ann, bob := say("ann"), say("bob")
	ann.invoke("r1", "s1", "may I?")
	q := ann.until("state WAITING_APPROVAL")[2]
	for _, message := range []string{
		fmt.Sprintf(`{"type":"approval_decision","approval_id":%q,"decision":"approve"}`, q.ApprovalID),
		fmt.Sprintf(`{"type":"tool_result","tool_call_id":%q,"ok":true,"result":1}`, q.ApprovalID),
		fmt.Sprintf(`{"type":"cancel_run","run_id":%q}`, q.RunID), fmt.Sprintf(`{"type":"replay_run","run_id":%q}`, q.RunID),
	} {
		bob.send(message)
		if m := bob.next(); m.Code != "not_found" {
			t.Errorf("%s: %s", message, m.raw)
		}
	}
	bob.invoke("r1", "s1", "mine") // another thread of that name
	if m := last(bob.until("state WAITING_APPROVAL")); m.RunID == q.RunID {
		t.Error(m.raw)
	}
	// Her browser sees what the channel began, and decides it.
	if got := h.do("POST", "/api/approvals/"+q.ApprovalID+"/decision", `{"decision":"reject"}`, "Authorization", "Bearer "+annKey); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	ann.until("done")
}

// TestIngressTokenEnds, and the socket with it.
func TestIngressTokenEnds(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	h := newEnvWith(t, saysN(1), p)
	// A token's end is a whole second; one that is near would have passed on a busy machine.
	conn, _, err := h.dial("/ws/ingress", "Authorization", "Bearer "+issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann"}}, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c := &channelClient{t, conn}
	c.send(`{"type":"hello"}`)
	for err == nil {
		_, err = c.read()
	}
	if !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Error(err)
	}
}

// TestSocketsAskForTools: a tool call that needs an approval is asked for on both sockets, runs once when it is approved, and
// its result is sent.
func TestSocketsAskForTools(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, `{"risk":"high"}`, func(w *toolEnv, call bridge.Call) string {
		got := w.invoke(call, "cut", `{"wood":"oak"}`)
		id, _ := got["tool_call_id"].(string)
		return fmt.Sprint(w.agentCall(call.RunToken, "/v1/tool_calls/"+id+":wait?timeout_ms=60000", "{}")["result"])
	})
	ch := w.channel("")
	ch.invoke("r1", "s1", "cut it")
	asked := ch.until("approval_required")
	q := last(asked)
	if q.ToolName != "cut" || !strings.Contains(q.ArgsSummary, "oak") || !strings.Contains(q.raw, `"risk":"high"`) {
		t.Errorf("%s", q.raw)
	}
	page := w.permissions("/ws/permissions/s1")
	m := page.next("agent_tool_permission_request")
	if !strings.Contains(m.raw, `"message":"The agent wants to run cut"`) || m.Data.ExecutionID != q.ApprovalID || m.Data.RiskLevel != "high" || m.Data.ToolName != "cut" {
		t.Errorf("%s", m.raw)
	}
	ch.approve(q.ApprovalID)
	if m := page.next("agent_tool_execution_result"); m.Data.Status != string(store.ApprovalApproved) {
		t.Errorf("%s", m.raw)
	}
	if m := page.next("agent_tool_execution_result"); m.Data.Status != string(store.ToolSucceeded) || !strings.Contains(m.raw, `"result":{"cut":{"wood":"oak"}}`) {
		t.Errorf("%s", m.raw)
	}
	if all := ch.until("done"); !strings.Contains(gist(all), "oak") || w.ran.Load() != 1 {
		t.Errorf("%s, ran %d times", gist(all), w.ran.Load())
	}
}
