package server_test

import (
	"fmt"
	"testing"

	"github.com/gorilla/websocket"

	"aqueduct/server/auth"
)

// TestIngressStaticKey: the one token speaks for no other user, and gets an error that explains it; where a setting lets it
// speak for users, each has sessions of their own.
func TestIngressStaticKey(t *testing.T) {
	t.Parallel()
	const key = "a token with some length"
	plain, err := auth.Static(key)
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, asks, plan{auth: plain})
	for _, c := range []struct{ user, code string }{{"", ""}, {"local", ""}, {"ann", "forbidden_user"}, {"bob", "forbidden_user"}, {"system", "forbidden_user"}} {
		if got := h.hello(c.user, key); got != c.code {
			t.Errorf("%q: %q, want %q", c.user, got, c.code)
		}
	}
	refused := h.channelOf("ann", key)
	if m := refused.next(); m.Code != "forbidden_user" || m.Type != "error" {
		t.Errorf("%s", m.raw)
	}
	if _, err := refused.read(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("it is left with %v", err)
	}

	h = newEnvWith(t, asks, plan{auth: plain.WithUsers("acme")})
	for _, c := range []struct{ user, code string }{{"", ""}, {"ann", ""}, {"system", "forbidden_user"}, {"a\tb", "forbidden_user"}} {
		if got := h.hello(c.user, key); got != c.code {
			t.Errorf("for users, %q: %q, want %q", c.user, got, c.code)
		}
	}
	ann, bob := h.channelOf("ann", key), h.channelOf("bob", key)
	ann.invoke("r1", "s1", "may I?")
	q := ann.until("state WAITING_APPROVAL")[2]
	bob.send(fmt.Sprintf(`{"type":"approval_decision","request_id":"d1","approval_id":%q,"decision":"approve"}`, q.ApprovalID))
	if m := bob.next(); m.Code != "not_found" || m.RequestID != "d1" {
		t.Errorf("%s", m.raw)
	}
	bob.send(fmt.Sprintf(`{"type":"replay_run","request_id":"d2","run_id":%q}`, q.RunID))
	if m := bob.next(); m.Code != "not_found" || m.RequestID != "d2" {
		t.Errorf("%s", m.raw)
	}
}

// channelOf connects and sends the hello of a user with a key.
func (h *env) channelOf(user, key string) *channelClient {
	h.t.Helper()
	conn, resp, err := h.dial("/ws/ingress")
	if err != nil {
		h.t.Fatal(err, resp)
	}
	c := &channelClient{h.t, conn}
	c.send(fmt.Sprintf(`{"type":"hello","user_id":%q,"api_key":%q}`, user, key))
	return c
}

// answerTo is the first message with a request_id.
func (c *channelClient) answerTo(request string) channelMessage {
	c.t.Helper()
	for {
		if m := c.next(); m.RequestID == request {
			return m
		}
	}
}

// TestIngressAcknowledges: each decision and each tool result is answered under its own request_id: taken, repeated, too late,
// and refused.
func TestIngressAcknowledges(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	c := h.channel("")
	c.invoke("r1", "s1", "may I?")
	q := c.until("state WAITING_APPROVAL")[2]
	decide := func(request, id, decision string) channelMessage {
		t.Helper()
		c.send(fmt.Sprintf(`{"type":"approval_decision","request_id":%q,"approval_id":%q,"decision":%q}`, request, id, decision))
		return c.answerTo(request)
	}
	if m := decide("d0", q.ApprovalID, "maybe"); m.Type != "error" || m.Code == "" {
		t.Errorf("refused: %s", m.raw)
	}
	for i, decision := range []string{"approve", "approve"} {
		m := decide(fmt.Sprint("d", i+1), q.ApprovalID, decision)
		if m.Type != "state" || m.State == "" || m.RunID != q.RunID || m.SessionID != "s1" || len(m.Detail.Settled) != 1 || m.Detail.Settled[0].ID != q.ApprovalID || m.Detail.Settled[0].Status != "APPROVED" {
			t.Errorf("%s: %s", m.RequestID, m.raw)
		}
	}
	if m := decide("d3", q.ApprovalID, "reject"); m.Type != "error" || m.Code == "" || len(m.Detail.Settled) != 1 || m.Detail.Settled[0].Status != "APPROVED" {
		t.Errorf("too late: %s", m.raw)
	}
	if m := decide("d4", "none", "approve"); m.Code != "not_found" {
		t.Errorf("unknown: %s", m.raw)
	}
	c.send(`{"type":"tool_result","request_id":"d5","tool_call_id":"none","ok":true,"result":1}`)
	if m := c.answerTo("d5"); m.Code != "not_found" {
		t.Errorf("unknown call: %s", m.raw)
	}
}

// TestIngressToolResultAcknowledged: so is a result of the client's tool.
func TestIngressToolResultAcknowledged(t *testing.T) {
	t.Parallel()
	h := newEnv(t, callsTool)
	c := h.channel("")
	c.send(`{"type":"agent_invoke","request_id":"r1","session_id":"s1","message":{"role":"user","content":"go"},"tools":[{"name":"pick","description":"d","parameters":{"type":"object"}}]}`)
	q := c.until("tool_request")
	call := last(q).ToolCallID
	for i, result := range []string{"1", "1", "2"} {
		request := fmt.Sprint("t", i)
		c.send(fmt.Sprintf(`{"type":"tool_result","request_id":%q,"tool_call_id":%q,"ok":true,"result":%s}`, request, call, result))
		m := c.answerTo(request)
		if m.Type != map[bool]string{true: "state", false: "error"}[i < 2] || len(m.Detail.Settled) != 1 || m.Detail.Settled[0].ID != call {
			t.Errorf("%s: %s", request, m.raw)
		}
	}
}
