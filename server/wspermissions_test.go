package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"aqueduct/store"
)

// permissionTold is a message of a permission socket.
type permissionTold struct {
	Type string `json:"type"`
	Data struct {
		SessionID   string `json:"session_id"`
		ExecutionID string `json:"execution_id"`
		ToolName    string `json:"tool_name"`
		RiskLevel   string `json:"risk_level"`
		Message     string `json:"message"`
		Kind        string `json:"kind"`
		State       string `json:"state"`
		Status      string `json:"status"`
		Code        string `json:"code"`
		OptionID    string `json:"option_id"`
		DecidedVia  string `json:"decided_via"`
		Pending     []struct {
			ExecutionID string `json:"execution_id"`
		} `json:"pending"`
		Decision struct {
			Status   string `json:"status"`
			OptionID string `json:"option_id"`
		} `json:"decision"`
	} `json:"data"`

	raw string
}

// permissions is a page on a permission socket.
type permissions struct {
	t    testing.TB
	conn *websocket.Conn
}

func (h *env) permissions(path string, header ...string) *permissions {
	h.t.Helper()
	conn, resp, err := h.dial(path, header...)
	if err != nil {
		h.t.Fatal(err, resp)
	}
	return &permissions{h.t, conn}
}

func (p *permissions) send(message string) {
	p.t.Helper()
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *permissions) respond(id, members string) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"type":"agent_tool_permission_response","data":{"execution_id":%q,%s}}`, id, members))
}

func (p *permissions) next(typ string) (m permissionTold) {
	p.t.Helper()
	raw, err := receive(p.conn)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if m.raw = string(raw); err != nil || m.Type != typ {
		p.t.Fatalf("%v, want %s: %s", err, typ, raw)
	}
	return m
}

func (p *permissions) status() permissionTold {
	p.t.Helper()
	p.send(`{"type":"get_agent_status","data":{}}`)
	return p.next("agent_status")
}

// TestPermissionSocket: asked in the chat, shown and answered here; the chat goes on.
func TestPermissionSocket(t *testing.T) {
	t.Parallel()
	for path, approved := range map[string]bool{"/ws/permissions/session_123": true, "/agent_backend/ws/session_123": false} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, asks)
			early := h.permissions(path) // before there is such a thread
			if m := early.status(); m.Data.State != "IDLE" || len(m.Data.Pending) != 0 {
				t.Error(m.raw)
			}
			h.chat("session_123", "R1", "may I?")
			late := h.permissions(path)
			for _, page := range []*permissions{early, late} {
				m := page.next("agent_tool_permission_request")
				if m.Data.SessionID != "session_123" || m.Data.ExecutionID != h.question() || m.Data.ToolName != "rm" || m.Data.Message != "Delete it?" ||
					m.Data.RiskLevel == "" || !strings.Contains(m.raw, `"parameters":{"path":"/x"}`) {
					t.Error(m.raw)
				}
			}
			id := h.question()
			if m := late.status(); m.Data.State != "WAITING_APPROVAL" || len(m.Data.Pending) != 1 || m.Data.Pending[0].ExecutionID != id {
				t.Error(m.raw)
			}
			late.respond(id, fmt.Sprintf(`"approved":%t`, approved))
			typ, option, status := "agent_tool_execution_result", "yes", "APPROVED"
			if !approved {
				typ, option, status = "agent_tool_permission_denied", "no", "REJECTED"
			}
			for _, page := range []*permissions{early, late} {
				m := page.next(typ)
				if m.Data.ExecutionID != id || m.Data.ToolName != "rm" || m.Data.Status != status || m.Data.OptionID != option || m.Data.DecidedVia != "permissions" {
					t.Error(m.raw)
				}
			}
			frames := h.open(h.request("GET", "/api/threads/session_123/events", ""))
			said, err := frames.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" && f.field("runId") != "R1" })
			if err != nil || !strings.Contains(text(said), option) {
				t.Errorf("%v %v", err, said)
			}
			frames.close()
			// The same again, and too late otherwise.
			early.respond(id, fmt.Sprintf(`"approved":%t`, approved))
			if m := early.next(typ); m.Data.Status != status {
				t.Error(m.raw)
			}
			early.respond(id, fmt.Sprintf(`"approved":%t`, !approved))
			m := early.next("error")
			if m.Data.Code != "already_decided" || m.Data.ExecutionID != id || m.Data.Decision.Status != status || m.Data.Decision.OptionID != option {
				t.Error(m.raw)
			}
		})
	}
}

// TestPermissionSocketSeesOthers: answered elsewhere, expired or cancelled, it is seen here.
func TestPermissionSocketSeesOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settle            func(h *env, id string)
		typ, status, seen string
	}{
		"inbox": {func(h *env, id string) { h.decide(id, `{"decision":"approve"}`) }, "agent_tool_execution_result", "APPROVED", "rest"},
		"chat": {func(h *env, id string) {
			h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],`+
				`"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":false}}]}`, id))).rest()
		}, "agent_tool_permission_denied", "REJECTED", "chat"},
		"channel": {func(h *env, id string) {
			ch := h.channel("")
			ch.next()
			ch.approve(id)
			ch.until("done")
		}, "agent_tool_execution_result", "APPROVED", "ingress"},
		"cancel": {func(h *env, _ string) { h.do("POST", "/api/runs/R1/cancel", "{}") }, "agent_tool_permission_denied", "CANCELLED", "cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, asks)
			page := h.permissions("/ws/permissions/T")
			h.chat("T", "R1", "may I?")
			id := page.next("agent_tool_permission_request").Data.ExecutionID
			c.settle(h.as(t), id)
			if m := page.next(c.typ); m.Data.ExecutionID != id || m.Data.Status != c.status || m.Data.DecidedVia != c.seen {
				t.Error(m.raw)
			}
			if m := h.permissions("/ws/permissions/T").status(); len(m.Data.Pending) != 0 {
				t.Error(m.raw)
			}
		})
	}
}

// TestAnsweredOnPermissionSocketSeenOnIngress, the other way round.
func TestAnsweredOnPermissionSocketSeenOnIngress(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	ch := h.channel("")
	ch.invoke("r1", "s1", "may I?")
	asked := ch.until("state WAITING_APPROVAL")
	page := h.permissions("/ws/permissions/s1")
	id := page.next("agent_tool_permission_request").Data.ExecutionID
	if id != asked[2].ApprovalID {
		t.Errorf("%s is not %s", id, asked[2].ApprovalID)
	}
	page.respond(id, `"approved":true,"option_id":"ever"`)
	if rest := ch.until("done"); rest[0].Detail.Settled[0].OptionID != "ever" || rest[0].RunID != asked[0].RunID {
		t.Errorf("%s", rest[0].raw)
	}
}

// TestPermissionSocketInput: an input is answered with a value, and rejected by giving none.
func TestPermissionSocketInput(t *testing.T) {
	t.Parallel()
	h := newEnv(t, input)
	page := h.permissions("/ws/permissions/T")
	h.chat("T", "R1", "ask")
	m := page.next("agent_tool_permission_request")
	if m.Data.Kind != "input" || m.Data.Message != "How many?" {
		t.Error(m.raw)
	}
	page.respond(m.Data.ExecutionID, `"approved":true`)
	if m := page.next("error"); m.Data.Code != "invalid_answer" {
		t.Error(m.raw)
	}
	page.respond(m.Data.ExecutionID, `"payload":{"n":3}`)
	if m := page.next("agent_tool_execution_result"); m.Data.Status != "APPROVED" {
		t.Error(m.raw)
	}
}

// TestPermissionSocketRefusals: an error with a code, and the socket lives.
func TestPermissionSocketRefusals(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("U", "R1", "may I?")
	foreign := h.question()
	h.chat("T", "R1", "may I?")
	page := h.permissions("/ws/permissions/T")
	id := page.next("agent_tool_permission_request").Data.ExecutionID
	for _, refused := range []struct{ code, message string }{
		{"unknown_type", `{"type":"run_everything","data":{}}`},
		{"invalid_body", `{"data":{}}`},
		{"invalid_body", `no`},
		{"invalid_body", `{"type":"agent_tool_permission_response","data":[]}`},
		{"invalid_body", `{"type":"agent_tool_permission_response","data":{"execution_id":"` + id + `"}}`},
		{"invalid_body", `{"type":"agent_tool_permission_response","data":{"execution_id":"` + id + `","approved":"yes"}}`},
		{"not_found", `{"type":"agent_tool_permission_response","data":{"execution_id":"none","approved":true}}`},
		{"not_found", `{"type":"agent_tool_permission_response","data":{"execution_id":"` + foreign + `","approved":true}}`},
		{"unknown_option", `{"type":"agent_tool_permission_response","data":{"execution_id":"` + id + `","option_id":"maybe"}}`},
		{"body_too_large", `{"type":"` + strings.Repeat("x", 1<<20) + `"}`},
	} {
		page.send(refused.message)
		if m := page.next("error"); m.Data.Code != refused.code {
			t.Errorf("%.100s: %s", refused.message, m.raw)
		}
	}
	for _, open := range []string{id, foreign} {
		if a, err := h.store.Approval(t.Context(), store.System(), open); err != nil || a.Status != store.ApprovalPending {
			t.Errorf("%s %s: %v", open, a.Status, err)
		}
	}
}

// TestWhoMayDecide: a bearer token or a cookie, never in the URL, and no stranger's page.
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t), origins: []string{"https://app.example"}})
	session := h.signedIn(goodToken)
	bearer := "Bearer " + goodToken
	for name, c := range map[string]struct {
		path   string
		header []string
		status int
	}{
		"bearer":           {"/ws/permissions/T", []string{"Authorization", bearer}, 101},
		"cookie":           {"/ws/permissions/T", session.all(), 101},
		"cookie, own page": {"/agent_backend/ws/T", session.all("Origin", h.URL), 101},
		"a listed page":    {"/agent_backend/ws/T", session.all("Origin", "https://app.example"), 101},
		"a stranger's":     {"/ws/permissions/T", session.all("Origin", "https://evil.example"), 403},
		"cookie alone":     {"/ws/permissions/T", session.cookie(), 401},
		"nothing":          {"/ws/permissions/T", nil, 401},
		"in the URL":       {"/ws/permissions/T?token=" + goodToken, nil, 401},
		"a bad name":       {"/ws/permissions/a%0Ab", []string{"Authorization", bearer}, 400},
	} {
		_, resp, err := h.dial(c.path, c.header...)
		if resp == nil || resp.StatusCode != c.status || (err == nil) != (c.status == 101) {
			t.Errorf("%s: %v %v", name, resp, err)
		}
	}
}

// TestPermissionSocketEnds with its thread, and with the server.
func TestPermissionSocketEnds(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	waiting := h.permissions("/ws/permissions/none")
	h.chat("T", "R1", "hi")
	page := h.permissions("/ws/permissions/T")
	page.status()
	h.do("DELETE", "/api/threads/T", "")
	if _, err := receive(page.conn); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Error(err)
	}
	h.server.Drain()
	if _, err := receive(waiting.conn); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Error(err)
	}
}
