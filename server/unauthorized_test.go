package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/server/auth"
)

// TestUnauthorizedFitsTheCaller: a 401 names what its route takes, and what a credential of another kind opens; a forged
// credential gets the words of a good one.
func TestUnauthorizedFitsTheCaller(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(keys)})
	other, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]auth.Claims{
		"proxy":     {Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p"}},
		"bootstrap": {Type: auth.TypeBootstrap, ProxyClaims: auth.ProxyClaims{ProxyID: "p"}},
		"channel":   {Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "c"}},
		"approver":  {Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "bob"}},
	}
	const goneKey = "aqk_01890000-0000-7000-8000-000000000000_00000000000000000000000000000000"
	const run = "run_01890000-0000-7000-8000-000000000000_guess"
	for _, c := range []struct{ route, shown, want string }{
		{"GET /api/threads", "", "aqueduct token show"},
		{"GET /api/threads", "wrong-token-of-length", "POST /api/session"},
		{"POST /api/agui/chat", "wrong-token-of-length", "a user, service account or operator"},
		{"POST /api/agui/chat", run, "an agent's token"},
		{"POST /api/approvals/x/decision", run, "an agent's token"},
		{"GET /api/threads", "proxy", "opens /ws/agent"},
		{"GET /api/proxies", "bootstrap", "x-acp-proxy-bootstrap"},
		{"GET /api/threads", "channel", "api_key of a hello"},
		{"GET /api/threads", "approver", "an approver's token"},
		{"POST /v1/tools/x:invoke", "", "run token"},
		{"POST /v1/tools/x:invoke", goodToken, "run token"},
		{"POST /v1/chat/completions", goodToken, "AQUEDUCT_TOKEN of an ACP agent"},
		{"POST /v1/chat/completions", "", "API key of an agent's program"},
		{"POST /v1/tools/x:invoke", goneKey, "service-account create"},
		{"GET /api/threads", goneKey, "This API key is not good"},
		{"GET /v1/tools", run, "x-aqueduct-run-token"},
		{"POST /mcp", run, "run token"},
		{"POST /v1/ingress", goodToken, "A channel signs"},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		shown := []string{c.shown}
		if claims, ok := of[c.shown]; ok {
			shown = []string{issue(t, keys, claims, time.Hour), issue(t, other, claims, time.Hour)}
		}
		var first string
		for _, token := range shown {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			got := h.do(method, path, "{}", header...)
			if got.status != http.StatusUnauthorized || !strings.Contains(got.body, c.want) || !strings.Contains(got.body, `"code":"unauthorized"`) {
				t.Errorf("%s with %.20q: %d %s", c.route, token, got.status, got.body)
			}
			if first != "" && got.body != first {
				t.Errorf("%s: a forged %s token gets other words", c.route, c.shown)
			}
			first = got.body
		}
	}
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(h.URL, "http")+"/ws/ingress", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","ts":0,"user_id":"u1","api_key":"...","client_meta":{"app":"web"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, raw, err := conn.ReadMessage(); err != nil || !strings.Contains(string(raw), "aqueduct token issue --type channel") {
		t.Errorf("the hello: %s %v", raw, err)
	}
}

// closing is how a page's socket ends: the status of a refused handshake, or the close code and the reason.
func (h *env) closing(path string, header ...string) (status, code int, reason string) {
	h.t.Helper()
	head := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		head.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{}
	conn, resp, err := dialer.DialContext(h.t.Context(), "ws"+strings.TrimPrefix(h.URL, "http")+path, head)
	if err != nil {
		if resp == nil {
			h.t.Fatal(err)
		}
		return resp.StatusCode, 0, ""
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, _, err = conn.ReadMessage()
	var bye *websocket.CloseError
	if !errors.As(err, &bye) {
		h.t.Fatalf("%s is open: %v", path, err)
	}
	return http.StatusSwitchingProtocols, bye.Code, bye.Text
}

// TestDialogPageIsToldWhy: a page on another name of this machine reads why its session does not come: in the answer to
// its sign-in, and with the close code of its socket. So is a page without a session.
func TestDialogPageIsToldWhy(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t), origins: []string{"http://localhost:5173"}})
	port := h.URL[strings.LastIndex(h.URL, ":"):]
	paths := []string{"/agent_backend/ws/session_id", "/agent_backend/ws", "/ws/permissions/t", "/ws/client"}
	for _, c := range []struct {
		name, origin, code, why string
	}{
		{"the same page, another name", "http://localhost" + port, "forbidden_origin", "the page is on localhost, the socket on 127.0.0.1"},
		{"an allowed origin on another name", "http://localhost:5173", "unauthorized", "the page is on localhost, the socket on 127.0.0.1"},
		{"its own page, not signed in", "http://127.0.0.1" + port, "unauthorized", "sign in first"},
	} {
		for _, path := range paths {
			status, code, reason := h.closing(path, "Origin", c.origin)
			if status != http.StatusSwitchingProtocols || code != websocket.ClosePolicyViolation || !strings.HasPrefix(reason, c.code+": ") || !strings.Contains(reason, c.why) || len(reason) > 123 {
				t.Errorf("%s at %s: %d, closed with %d %q", c.name, path, status, code, reason)
			}
		}
	}
	for _, c := range []struct {
		name string
		head []string
		want int
	}{
		{"a page of a stranger", []string{"Origin", "https://evil.example"}, 403},
		{"a program", nil, 401},
		{"a name of ours, from elsewhere", []string{"Origin", "http://localhost.evil.example"}, 403},
		{"another program of this machine", []string{"Origin", "http://localhost:1"}, 403},
	} {
		if status, _, _ := h.closing(paths[0], c.head...); status != c.want {
			t.Errorf("%s: %d", c.name, status)
		}
	}
	// What a browser asks before it sends the sign-in: the page can read the refusal only where this is answered.
	asks := func(origin string) answer {
		return h.do("OPTIONS", "/api/session", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
	}
	if got := asks("http://localhost" + port); got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != "http://localhost"+port || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "content-type") {
		t.Errorf("the preflight: %d %v", got.status, got.header)
	}
	if got := asks("http://localhost:1"); got.status != 403 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("the preflight of another program's page: %d %v", got.status, got.header)
	}
	const body = `{"token":"` + goodToken + `"}`
	for _, c := range []struct {
		name   string
		head   []string
		status int
		want   string
	}{
		{"the same page, another name", []string{"Origin", "http://localhost" + port}, 403, "Open the page under 127.0.0.1"},
		{"an allowed origin on another name", []string{"Origin", "http://localhost:5173"}, 403, `"code":"cross_site_session"`},
		{"with the browser's own word", []string{"Origin", "http://localhost:5173", "Sec-Fetch-Site", "cross-site"}, 403, "or let it call localhost"},
		{"another site", []string{"Origin", "http://localhost:5173", "Host", "localhost" + port, "Sec-Fetch-Site", "cross-site"}, 403, "of another site"},
		{"another port of one site", []string{"Origin", "http://localhost:5173", "Host", "localhost" + port}, 204, ""},
		{"its own page", []string{"Origin", "http://127.0.0.1" + port, "Sec-Fetch-Site", "same-origin"}, 204, ""},
		{"a program", nil, 204, ""},
	} {
		got := h.do("POST", "/api/session", body, c.head...)
		if got.status != c.status || !strings.Contains(got.body, c.want) || (got.header.Get("Set-Cookie") != "") != (c.status == 204) ||
			c.head != nil && !strings.HasPrefix(c.name, "its own") && got.header.Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("sign-in, %s: %d %s", c.name, got.status, got.body)
		}
	}
}
