package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/server"
	"aqueduct/server/auth"
)

const goodToken = "a-token-of-some-length"

func static(t *testing.T) *auth.Auth {
	t.Helper()
	a, err := auth.Static(goodToken)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestS08Host: DNS rebinding makes a stranger's page "same origin"; the Host gives it away.
func TestS08Host(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{hosts: []string{"Chat.Example"}})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:99": 200, "127.0.0.1": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "127.9.9.9": 200,
		"chat.example": 200, "chat.example:443": 200,
		"attacker.example": 421, "localhost.attacker.example": 421, "chat.example.attacker.example": 421,
		"10.0.0.1": 421, "[::]": 421, "": 421, "127.0.0.1.nip.io": 421, "localhost/..": 421,
	} {
		req := httptest.NewRequest("GET", "/api/threads", nil)
		req.Host = host
		if got := h.direct(req); got.status != want {
			t.Errorf("Host %q: %d, want %d", host, got.status, want)
		}
	}
}

// TestS08HostOffLoopback: addresses are fine there, names of strangers are not.
func TestS08HostOffLoopback(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t)})
	for host, want := range map[string]int{"192.0.2.7:8080": 200, "localhost": 200, "attacker.example": 421} {
		req := httptest.NewRequest("GET", "/api/threads", nil)
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+goodToken)
		if got := serve(h, req, net.IPv4(192, 0, 2, 7)); got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
}

// serve serves a request as if it had come in on an address.
func serve(h *env, req *http.Request, at net.IP) int {
	rec := httptest.NewRecorder()
	ctx := context.WithValue(req.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: at, Port: 80})
	h.server.ServeHTTP(rec, req.WithContext(ctx))
	return rec.Code
}

// TestS10Origin: pages of other origins may not call, listed ones may, and get the headers of what they may send and read.
func TestS10Origin(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{origins: []string{"https://app.example", "http://localhost:5173"}})
	for origin, want := range map[string]struct {
		status int
		cors   bool
	}{
		"":                            {200, false},
		"http://localhost:8080":       {200, false}, // the server's own page
		"https://app.example":         {200, true},
		"http://localhost:5173":       {200, true},
		"https://app.example:444":     {403, false},
		"http://app.example":          {403, false},
		"https://evil.example":        {403, false},
		"https://app.example.evil.io": {403, false},
		"http://localhost:3000":       {403, false},
		"null":                        {403, false},
		"file://":                     {403, false},
	} {
		for _, method := range []string{"GET", "OPTIONS"} {
			req := httptest.NewRequest(method, "/api/threads", nil)
			req.Host = "localhost:8080"
			if origin != "" {
				req.Header.Set("Origin", origin)
			}
			got := h.direct(req)
			if method == "OPTIONS" && want.status == 200 && got.status == 204 {
				got.status = 200
			}
			allowed := got.header.Get("Access-Control-Allow-Origin")
			if got.status != want.status || (allowed == origin && origin != "") != want.cors || allowed == "*" {
				t.Errorf("%s from %q: %d, allowed %q", method, origin, got.status, allowed)
			}
			if got.header.Get("Vary") == "" {
				t.Errorf("%s from %q: no Vary", method, origin)
			}
		}
	}
}

// TestSameOriginBehindProxy: proxies rewrite Host and keep Origin. The browser's own header decides then, and nothing weaker
// than "same-origin" does.
func TestSameOriginBehindProxy(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for _, tc := range []struct {
		host, origin string
		site         []string
		want         int
	}{
		{"127.0.0.1:8080", "http://localhost:5173", []string{"same-origin"}, 200}, // Vite, changeOrigin
		{"localhost", "http://localhost:8443", []string{"same-origin"}, 200},      // nginx, Host $host
		{"127.0.0.1:8080", "https://chat.example", []string{"same-origin"}, 200},  // nginx, plain proxy_pass
		{"127.0.0.1:8080", "http://localhost:5173", nil, 403},
		{"127.0.0.1:8080", "http://127.0.0.1:3000", []string{"same-site"}, 403}, // another port of this host
		{"127.0.0.1:8080", "https://evil.example", []string{"cross-site"}, 403},
		{"127.0.0.1:8080", "https://evil.example", []string{"none"}, 403},
		{"127.0.0.1:8080", "https://evil.example", []string{"same-origin", "cross-site"}, 403},
		{"127.0.0.1:8080", "https://evil.example", []string{"same-origin, cross-site"}, 403},
		// A rebound name makes its page same-origin; only the Host gives it away.
		{"evil.example", "http://evil.example", []string{"same-origin"}, 421},
		{"evil.example:8080", "http://evil.example:8080", []string{"same-origin"}, 421},
	} {
		for _, method := range []string{"GET", "POST"} {
			path, body := "/api/threads", ""
			if method == "POST" {
				path, body = "/api/agui/chat", inputBody("T", "R", "hi")
			}
			req := httptest.NewRequest(method, path, strings.NewReader(body))
			req.Host = tc.host
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Origin", tc.origin)
			req.Header["Sec-Fetch-Site"] = tc.site
			if got := h.direct(req); got.status != tc.want {
				t.Errorf("%s, Host %s, Origin %s, Sec-Fetch-Site %q: %d, want %d", method, tc.host, tc.origin, tc.site, got.status, tc.want)
			}
		}
	}
}

// TestRefusalSaysWhatToSet: with the setting as it is to be typed, and never with anything
// that a shell would interpret.
func TestRefusalSaysWhatToSet(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for _, tc := range []struct{ host, origin, want string }{
		{"localhost:8080", "http://192.0.2.2:5173", "aqueduct serve --cors-origin http://192.0.2.2:5173"},
		{"127.0.0.1:8080", "https://Chat.Example", "aqueduct serve --cors-origin https://chat.example"},
		{"127.0.0.1:8080", "http://[::1]:5173", "aqueduct serve --cors-origin http://[::1]:5173"},
		{"localhost", "null", "Serve it over http."},
		{"localhost", "http://a$(reboot).example", "Serve it over http."},
		{"localhost", "http://" + strings.Repeat("a", 300), "Serve it over http."},
		{"aqueduct_backend", "", "aqueduct serve --allowed-host aqueduct_backend"},
		{"Chat.Example:8443", "", "aqueduct serve --allowed-host chat.example"},
		{"a;reboot", "", "--allowed-host."},
	} {
		req := httptest.NewRequest("GET", "/api/threads", nil)
		req.Host = tc.host
		if tc.origin != "" {
			req.Header.Set("Origin", tc.origin)
		}
		var got struct{ Detail string }
		if answer := h.direct(req); json.Unmarshal([]byte(answer.body), &got) != nil || !strings.HasSuffix(got.Detail, tc.want) {
			t.Errorf("Host %q, Origin %q: %s, want %q at the end", tc.host, tc.origin, answer.body, tc.want)
		}
	}
}

// TestS10Preflight lists every header TDesign's and the official client's calls need.
func TestS10Preflight(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{origins: []string{"https://app.example"}})
	req := httptest.NewRequest("OPTIONS", "/api/agui/chat", nil)
	req.Header.Set("Origin", "https://app.example")
	req.Header.Set("Access-Control-Request-Method", "POST")
	got := h.direct(req)
	for _, name := range []string{"content-type", "authorization", "cache-control", "last-event-id", "x-requested-with", "x-thread-id", "traceparent", "tracestate"} {
		if !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s may not be sent", name)
		}
	}
	if exposed := got.header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "X-Thread-Id") || !strings.Contains(exposed, "X-Run-Id") {
		t.Errorf("exposed: %q", exposed)
	}
	if got.status != 204 || !strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "PATCH") {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// TestOriginsAreChecked: a wildcard would let every page in.
func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"*", "https://*", "app.example", "https://app.example/path", "ftp://app.example", ""} {
		_, err := server.New(server.Config{Auth: auth.None(), Origins: []string{origin}})
		if err == nil {
			t.Errorf("%q is taken for an origin", origin)
		}
	}
}

// TestS09ContentType: only what no HTML form can send.
func TestS09ContentType(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	body := inputBody("T", "R", "hi")
	for given, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON;charset=UTF-8": 200,
		"application/json, application/json": 200, // TDesign's
		"text/plain":                         415, "text/plain;application/json": 415, "application/x-www-form-urlencoded": 415,
		"multipart/form-data; boundary=x": 415, "application/json, text/plain": 415, "": 415,
		"application/json; charset=utf-16": 415, "application/jsonp": 415,
	} {
		req := httptest.NewRequest("POST", "/api/agui/chat", strings.NewReader(body))
		if given != "" {
			req.Header.Set("Content-Type", given)
		}
		if got := h.direct(req); got.status != want {
			t.Errorf("%q: %d, want %d", given, got.status, want)
		}
	}
	for _, route := range [][2]string{
		{"POST", "/api/agui/chat"}, {"POST", "/api/agui/connect"}, {"PATCH", "/api/threads/T"}, {"POST", "/api/runs/R/cancel"},
		{"POST", "/api/approvals/a/decision"}, {"POST", "/api/tool_calls/a/result"}, {"POST", "/api/session"}, {"DELETE", "/api/threads/T"},
	} {
		req := httptest.NewRequest(route[0], route[1], strings.NewReader(`{}`))
		req.Header.Set("Content-Type", "text/plain")
		if got := h.direct(req); got.status != 415 {
			t.Errorf("%v as text/plain: %d", route, got.status)
		}
	}
	req := httptest.NewRequest("POST", "/api/agui/chat", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	if got := h.direct(req); got.status != 415 {
		t.Errorf("compressed: %d", got.status)
	}
}

// TestS02NoOrInvalidToken: every route and socket for callers wants a token. Whatever is wrong with the one given, the
// answer is the same to the byte, and nothing is stored. The routes of the sign-in ask for none: they answer that no user is
// signed in, or that there is no provider. /ws/agent has its own callers, whom the gateway's tests refuse.
func TestS02NoOrInvalidToken(t *testing.T) {
	t.Parallel()
	key := auth.NewKey()
	keys, err := auth.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(keys)})
	user := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}}, time.Hour)
	expired := endedAt(t, key, user, time.Now().Add(-time.Hour))
	if got := h.do("GET", "/api/threads", "", "Authorization", "Bearer "+endedAt(t, key, user, time.Now().Add(time.Minute))); got.status != 200 {
		t.Fatalf("a token that has not expired: %d %s", got.status, got.body)
	}
	signIn := map[string]string{
		"GET /api/session": `{"signedIn":false}`, "POST /api/session/oidc/logout": `{}`, "GET /api/session/oidc/login": `"code":"not_found"`,
		"GET /api/session/oidc/callback": `"code":"not_found"`,
	}
	seen := make(map[string]bool)
	for _, route := range h.server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		ofRoute := make(map[string]bool)
		open, asksNobody := signIn[route]
		if openRoute(path) && path != "/api/session" || method == "POST" && path == "/api/session" {
			continue
		}
		path = strings.ReplaceAll(path, ":id", "x")
		for name, header := range map[string][]string{
			"none": nil, "empty": {"Authorization", ""}, "empty bearer": {"Authorization", "Bearer "}, "wrong": {"Authorization", "Bearer wrong-token-of-length"},
			"expired": {"Authorization", "Bearer " + expired}, "another scheme": {"Authorization", "Basic " + goodToken}, "no scheme": {"Authorization", goodToken},
			"as a cookie": {"Cookie", "aqueduct_session=" + goodToken}, "expired, as a cookie": {"Cookie", "aqueduct_session=" + expired},
		} {
			got := h.do(method, path+"?token="+goodToken+"&access_token="+goodToken, "{}", header...)
			if strings.Contains(got.body, `"code":"unknown_member"`) { // it takes no token there, and says so before it asks for one
				got = h.do(method, path, "{}", header...)
			}
			if asksNobody {
				if !strings.Contains(got.body, open) || got.header.Get("Set-Cookie") != "" && !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
					t.Errorf("%s, %s: %d %s %q", route, name, got.status, got.body, got.header.Get("Set-Cookie"))
				}
				continue
			}
			if got.status != 401 || got.header.Get("WWW-Authenticate") == "" || got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s, %s: %d", method, path, name, got.status)
			}
			// The routes of the model proxy word it once more for their clients, one like the other.
			inTwoWords := strings.HasPrefix(path, "/v1/chat/") || slices.Contains([]string{"/v1/embeddings", "/v1/responses", "/v1/models"}, path)
			seen[fmt.Sprint(inTwoWords, got.body)], ofRoute[got.body] = true, true
		}
		if len(ofRoute) > 1 {
			t.Errorf("%s: the answers differ: %v", route, ofRoute)
		}
	}
	if len(seen) != 4 { // for users, for agents, for agents that call models, for channels
		t.Errorf("the answers differ: %v", seen)
	}
	for _, key := range []string{"", "wrong-token-of-length", expired} {
		if code := h.hello("", key); code != "unauthorized" {
			t.Errorf("/ws/ingress with the key %.8q: %q", key, code)
		}
	}
	if h.threads() != 0 {
		t.Error("something was stored")
	}
	if got := h.do("GET", "/api/threads", "", "Authorization", "bearer "+goodToken); got.status != 200 {
		t.Errorf("the token itself: %d", got.status)
	}
}

// endedAt is a token with another end, signed with the same key.
func endedAt(t *testing.T, key auth.Secret, token string, end time.Time) string {
	t.Helper()
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(token, claims)
	if err != nil {
		t.Fatal(err)
	}
	claims["exp"], claims["iat"], claims["nbf"] = end.Unix(), end.Add(-2*time.Hour).Unix(), end.Add(-2*time.Hour).Unix()
	signed, err := parsed.SignedString([]byte(string(key)))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// openRoute is what loads without a token.
func openRoute(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/openapi.json", "/api/session", "/api/admin/acp-proxy/register",
		"/ws/ingress": // its first frame authenticates
		return true
	}
	return !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/ws/") && !strings.HasPrefix(path, "/v1/") && path != "/metrics"
}

// TestBrowserSession: the cookie opens what the token opens, and holds something else.
func TestBrowserSession(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t)})
	if got := h.do("POST", "/api/session", `{"token":"not the right token"}`); got.status != 401 {
		t.Errorf("a wrong token: %d", got.status)
	}
	got := h.do("POST", "/api/session", `{"token":"`+goodToken+`"}`)
	cookie := got.header.Get("Set-Cookie")
	if got.status != 204 || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, goodToken) {
		t.Fatalf("%d %s", got.status, cookie)
	}
	session := sessionOf(got)
	if got := h.do("GET", "/api/threads", "", session.all()...); got.status != 200 {
		t.Errorf("with the cookie: %d", got.status)
	}
	if got := h.do("GET", "/api/threads", "", "Cookie", session.value+"x", auth.PageHeader, session.page); got.status != 401 {
		t.Errorf("with another: %d", got.status)
	}
	// A page on another port of this host is the same site to a browser, so it brings the
	// cookie along; its origin stops it.
	if got := h.do("POST", "/api/agui/chat", inputBody("T", "R", "hi"), session.all("Origin", "http://localhost:3000")...); got.status != 403 {
		t.Errorf("from another port: %d", got.status)
	}
	if got := h.do("DELETE", "/api/session", "", session.all()...); got.status != 204 || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out: %d %s", got.status, got.header.Get("Set-Cookie"))
	}
}

// TestNoTokenOffLoopback: also when a program mounts the handler on another listener.
func TestNoTokenOffLoopback(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	req := httptest.NewRequest("GET", "/api/threads", nil)
	req.Host = "localhost"
	if got := serve(h, req, net.IPv4(192, 0, 2, 7)); got != 401 {
		t.Errorf("off loopback: %d", got)
	}
	rec := httptest.NewRecorder()
	h.server.ServeHTTP(rec, req)
	if rec.Code != 401 {
		t.Errorf("nobody knows where: %d", rec.Code)
	}
}

// TestS39ForwardedHeaders change nothing: any client can send them. Where no token is asked for they are refused, because they
// mean that a proxy lets others reach a server that trusts everything on this machine.
func TestS39ForwardedHeaders(t *testing.T) {
	t.Parallel()
	asking, open := newEnvWith(t, saysN(1), plan{auth: static(t)}), newEnv(t, saysN(1))
	for _, header := range [][2]string{
		{"X-Forwarded-Host", "attacker.example"}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-User", "admin"}, {"x-forwarded-anything", ""},
		{"Forwarded", "for=127.0.0.1;host=attacker.example"}, {"Via", "1.1 proxy"}, {"X-Real-IP", "127.0.0.1"},
	} {
		if got := asking.do("GET", "/api/threads", "", header[0], header[1]); got.status != 401 {
			t.Errorf("%s instead of a token: %d", header[0], got.status)
		}
		if got := asking.do("GET", "/api/threads", "", header[0], header[1], "Authorization", "Bearer "+goodToken); got.status != 200 {
			t.Errorf("%s beside a token: %d", header[0], got.status)
		}
		if got := asking.do("GET", "/api/threads", "", "Host", "attacker.example", header[0], header[1], "Authorization", "Bearer "+goodToken); got.status != 421 {
			t.Errorf("%s and a foreign host: %d", header[0], got.status)
		}
		got := open.do("POST", "/api/agui/chat", inputBody("T", "R", "hi"), header[0], header[1])
		if got.status != 403 || fields(t, got)["code"] != "forwarded_request" || !strings.Contains(got.body, "--auth none") {
			t.Errorf("%s where no token is asked for: %d %s", header[0], got.status, got.body)
		}
	}
	if open.threads()+asking.threads() != 0 {
		t.Error("something was stored")
	}
}

// TestSignInLink: a code signs one browser in, once, and not after its time.
func TestSignInLink(t *testing.T) {
	t.Parallel()
	a := static(t)
	h := newEnvWith(t, saysN(1), plan{auth: a})
	exchange := func(code string) answer { return h.do("POST", "/api/session", `{"code":"`+code+`"}`) }
	if got := exchange("x"); got.status != 401 || fields(t, got)["code"] != "sign_in_link_spent" {
		t.Errorf("before there is one: %d %s", got.status, got.body)
	}
	earlier := string(a.IssueSignInCode())
	code := string(a.IssueSignInCode())
	if got := exchange(earlier); got.status != 401 {
		t.Errorf("the one before: %d", got.status)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	var session atomic.Value
	for range 8 {
		all.Go(func() {
			if got := exchange(code); got.status == 204 {
				won.Add(1)
				session.Store(sessionOf(got))
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d of 8 browsers are signed in by one code", won.Load())
	}
	if got := h.do("GET", "/api/threads", "", session.Load().(browserSession).all()...); got.status != 200 {
		t.Errorf("with the cookie: %d", got.status)
	}
	for name, body := range map[string]string{"neither": `{}`, "both": `{"code":"` + code + `","token":"` + goodToken + `"}`} {
		if got := h.do("POST", "/api/session", body); got.status != 400 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := newEnv(t, saysN(1)).do("POST", "/api/session", `{"code":"x"}`); got.status != 401 {
		t.Errorf("where there is no token: %d", got.status)
	}
}
