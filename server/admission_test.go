package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/notify"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/limit"
)

// people is a server that takes tokens, and tokens of two users of a tenant.
func people(t *testing.T, s script, limits limit.Limits) (h *env, ann, ben string) {
	t.Helper()
	p, keys := keyed(t)
	p.limits = limits
	p.hooks = channel.Webhooks{{ID: "im", Tenant: "acme", Secret: hookSecret, Callback: "http://127.0.0.1:1/"}}
	token := func(user string) string {
		return issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user}}, time.Hour)
	}
	return newEnvWith(t, s, p), token("ann"), token("ben")
}

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (b untouched) Read([]byte) (int, error) {
	b.t.Error("the body was read before the credential was looked at")
	return 0, io.ErrUnexpectedEOF
}

// TestS26BodiesWaitForCredentials: before a credential was shown no body is read that a header already forbids, and no more
// than 8 KiB of any other.
func TestS26BodiesWaitForCredentials(t *testing.T) {
	t.Parallel()
	h, _, _ := people(t, saysN(1), limit.Limits{})
	old := notify.Sign(hookSecret, nil, time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		path, header, value, channel string
		want                         int
	}{
		"no token":               {path: "/api/agui/chat", want: 401},
		"a wrong token":          {path: "/api/agui/chat", header: "Authorization", value: "Bearer wrong-token-of-length", want: 401},
		"a made-up run token":    {path: "/v1/tools/x:invoke", header: "Authorization", value: "Bearer run_0199_secret", want: 401},
		"a link of nobody":       {path: "/decide/none", want: 404},
		"an unknown channel":     {path: "/v1/ingress", channel: "none", want: 401},
		"a channel, no sign":     {path: "/v1/ingress", channel: "im", want: 401},
		"a channel, an old sign": {path: "/v1/ingress", channel: "im", header: notify.HeaderSignature, value: old, want: 401},
	} {
		req := httptest.NewRequest("POST", c.path, untouched{t})
		req.ContentLength = 4 << 20
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Aqueduct-Channel", c.channel)
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		if got := h.direct(req); got.status != c.want {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.body, c.want)
		}
	}
	for _, path := range []string{"/api/session", "/api/session/oidc/logout"} {
		req := httptest.NewRequest("POST", path, new(endless))
		req.Header.Set("Content-Type", "application/json")
		got := h.direct(req)
		if p := isProblem(t, got, 413); !strings.Contains(fmt.Sprint(p["detail"]), "8192") {
			t.Errorf("%s: %v", path, p)
		}
	}
}

// half is a body of which all but the last byte is there; the rest comes when it is let.
func half(size int) (body io.Reader, finish func()) {
	r, w := io.Pipe()
	pad := strings.Repeat(" ", size-len(`{"prompt":""}`)-1)
	go func() { _, _ = io.WriteString(w, `{"prompt":""`+pad) }()
	return r, func() { go func() { _, _ = io.WriteString(w, "} "); _ = w.Close() }() }
}

// TestS26BodiesShareABudget: slow bodies of one user leave room for those of another and for
// small ones, and are waited for before anybody is refused.
func TestS26BodiesShareABudget(t *testing.T) {
	t.Parallel()
	const body = 64 << 10
	h, ann, ben := people(t, saysN(1), limit.Limits{Body: body, Bodies: 2 * (body + 1), BodiesWait: 100 * time.Millisecond})
	post := func(token string, b io.Reader, size int64) answer {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/agui/chat", b)
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		return h.direct(req)
	}
	slow, finish := half(body)
	first := make(chan answer, 1)
	go func() { first <- post(ann, slow, body) }()
	h.holds(t, body)
	large := `{"prompt":"` + strings.Repeat("x", body/2) + `"}`
	got := post(ann, strings.NewReader(large), int64(len(large)))
	if p := isProblem(t, got, 503); p["code"] != "too_many_bodies" || got.header.Get("Retry-After") == "" {
		t.Errorf("beyond her share: %v, Retry-After %q", p, got.header.Get("Retry-After"))
	}
	if got := post(ann, strings.NewReader(`{}`), 2); got.status == 503 {
		t.Errorf("a small body: %d %s", got.status, got.body)
	}
	if got := post(ben, strings.NewReader(large), int64(len(large))); got.status != 200 {
		t.Errorf("somebody else's body: %d %s", got.status, got.body)
	}
	finish()
	if got := <-first; got.status == 503 {
		t.Errorf("the slow body itself: %d %s", got.status, got.body)
	}
	h.holds(t, 0)
}

// holds waits until the bodies that are held have about that size.
func (h *env) holds(t *testing.T, atLeast int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		held, ok := h.gauge(`aqueduct_body_bytes `)
		if ok && (atLeast == 0 && held == 0 || atLeast > 0 && held >= float64(atLeast)) {
			return
		}
	}
	t.Fatalf("the budget never held %d bytes", atLeast)
}

// gauge reads one line of the metrics, past the guard.
func (h *env) gauge(name string) (float64, bool) {
	rec := httptest.NewRecorder()
	h.metrics.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// TestS27SocketsBeforeHello: idle sockets without a hello are closed for newer ones, oldest first, and do not block users;
// one user's sockets leave room for others.
func TestS27SocketsBeforeHello(t *testing.T) {
	t.Parallel()
	h, ann, ben := people(t, saysN(1), limit.Limits{SocketsBeforeHello: 8, Sockets: 100, SocketsPerPrincipal: 2})
	var idle []*websocket.Conn
	for range 30 {
		conn, _, err := h.dial("/ws/ingress")
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	var closed *websocket.CloseError
	if _, _, err := idle[0].ReadMessage(); !errors.As(err, &closed) || closed.Code != websocket.CloseTryAgainLater {
		t.Errorf("the oldest idle socket: %v, want 1013", err)
	}
	if code := h.hello("ann", ann); code != "" {
		t.Errorf("hello among idle sockets: %s", code)
	}
	for range 2 {
		if _, resp, err := h.page("", "Authorization", "Bearer "+ben); err != nil {
			t.Fatal(err, resp)
		}
	}
	_, resp, err := h.page("", "Authorization", "Bearer "+ben)
	if err == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a third socket of one user: %v %v, want 429 with Retry-After", resp, err)
	}
	if code := h.hello("ben", ben); code != "too_many_sockets" {
		t.Errorf("a third socket of one user, by hello: %q", code)
	}
	conn, _, err := h.dial("/ws/permissions", "Authorization", "Bearer "+ann)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_ = conn.WriteMessage(websocket.TextMessage, make([]byte, 64<<20)) // it is cut in the middle
	for err = nil; err == nil; {
		_, _, err = conn.ReadMessage()
	}
	if closed = nil; errors.As(err, &closed) && closed.Code != websocket.CloseMessageTooBig {
		t.Errorf("a frame of 64 MiB: %v, want 1009", err)
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Error("a frame of 64 MiB was taken")
	}
}

// idleConn connects and sends nothing.
func (h *env) idleConn(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestS27Connections: idle connections go for newer ones; one on which a credential was shown is
// not among them.
func TestS27Connections(t *testing.T) {
	t.Parallel()
	h, ann, _ := people(t, saysN(1), limit.Limits{AnonymousConnections: 4, Connections: 2})
	known := h.idleConn(t)
	ask := func(conn net.Conn, token string) (int, error) {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "GET /api/threads HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Body.Close()
	}
	if status, err := ask(known, ann); status != 200 {
		t.Fatal(status, err)
	}
	first := h.idleConn(t)
	for range 12 {
		h.idleConn(t)
	}
	_ = first.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("the oldest idle connection: %v, want its end", err)
	}
	if status, err := ask(known, ann); status != 200 {
		t.Errorf("a known connection among idle ones: %d %v", status, err)
	}
	second := h.idleConn(t)
	if status, err := ask(second, ann); status != 200 {
		t.Errorf("a new connection among idle ones: %d %v", status, err)
	}
	if status, err := ask(h.idleConn(t), ann); status != 503 {
		t.Errorf("one known connection too many: %d %v, want 503", status, err)
	}
	_ = second.Close()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if status, _ := ask(h.idleConn(t), ann); status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a closed connection is not given back")
		}
	}
}

// TestS33Rates: a caller that prompts, decides or has tools run too often gets 429 with Retry-After, on every surface, and
// no other caller does.
func TestS33Rates(t *testing.T) {
	t.Parallel()
	slow := limit.Rate{PerSecond: 0.001, Burst: 2}
	h, ann, ben := people(t, saysN(1), limit.Limits{Runs: slow, Decisions: slow})
	tooMany := func(what string, got answer, want bool) {
		t.Helper()
		if is := got.status == http.StatusTooManyRequests; is != want {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		} else if want {
			if p := isProblem(t, got, 429); p["code"] != "too_many_requests" || got.header.Get("Retry-After") == "" {
				t.Errorf("%s: %v, Retry-After %q", what, p, got.header.Get("Retry-After"))
			}
		}
	}
	for i := range 4 {
		n := strconv.Itoa(i)
		got := h.do("POST", "/api/agui/chat", inputBody("T"+n, "R"+n, "hi"), "Authorization", "Bearer "+ann)
		tooMany("run "+n, got, i >= 2)
		got = h.do("POST", "/api/tool_calls/none/result", `{"result":1}`, "Authorization", "Bearer "+ann)
		tooMany("result "+n, got, i >= 2)
	}
	tooMany("a join", h.do("POST", "/api/agui/connect", inputBody("T0", "R9", ""), "Authorization", "Bearer "+ann), false)
	tooMany("another user", h.do("POST", "/api/agui/chat", inputBody("B", "R", "hi"), "Authorization", "Bearer "+ben), false)
	conn, _, err := h.dial("/ws/ingress")
	if err != nil {
		t.Fatal(err)
	}
	c := &channelClient{t, conn}
	c.send(fmt.Sprintf(`{"type":"hello","user_id":"ann","api_key":%q}`, ann))
	c.invoke("r-9", "s-9", "hi")
	if m := c.next(); m.Code != "too_many_requests" {
		t.Errorf("a run by the channel: %+v", m)
	}
}

// limitCases are requests that get the codes of limits.
func limitCases(t *testing.T, cases map[string]func() answer) {
	once := limit.Rate{PerSecond: 0.001, Burst: 1}
	cases["too_many_requests"] = func() answer {
		h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{Runs: once}})
		h.chat("T", "R", "hi")
		return h.do("POST", "/api/agui/chat", inputBody("T2", "R", "hi"))
	}
	cases["too_many_failed_credentials"] = func() answer {
		h := newEnvWith(t, saysN(1), plan{auth: static(t), limits: limit.Limits{Failures: once}})
		h.do("GET", "/api/threads", "", "Authorization", "Bearer wrong-token-of-length")
		return h.do("GET", "/api/threads", "", "Authorization", "Bearer wrong-token-of-length")
	}
	cases["too_many_turns"] = func() answer {
		h := newEnvWith(t, waits(make(chan struct{})), plan{bridge: bridge.Limits{TurnsPerUser: 1}})
		h.open(h.prompt("T", "R", "hi"))
		return h.do("POST", "/api/agui/chat", inputBody("T2", "R", "hi"))
	}
	cases["tenant_full"] = func() answer {
		h := newEnvWith(t, saysN(1), plan{bridge: bridge.Limits{TenantBytes: 100}})
		h.chat("T", "R", "hi")
		return h.do("POST", "/api/agui/chat", inputBody("T2", "R", "hi"))
	}
	cases["too_many_questions"] = func() answer {
		channelMessage := make(chan answer, 1)
		var w *toolEnv
		w = newToolEnv(t, highRisk, func(_ *toolEnv, c bridge.Call) string {
			var last answer
			for i := range 40 { // more than may be open
				last = w.do("POST", "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},"idempotency_key":"k%d"}`, c.TurnID, i), "Authorization", "Bearer "+c.RunToken)
			}
			channelMessage <- last
			return "done"
		})
		w.chat("T", "R", "go")
		return <-channelMessage
	}
	cases["too_many_sockets"] = func() answer {
		h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{SocketsPerPrincipal: 1}})
		h.watch("")
		return h.do("GET", "/ws/client", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	}
	cases["too_many_connections"] = func() answer {
		h := newEnvWith(t, waits(make(chan struct{})), plan{limits: limit.Limits{Connections: 1}})
		h.open(h.prompt("T", "R", "hi")) // keeps its connection
		return h.do("GET", "/api/threads", "")
	}
	cases["too_many_bodies"] = func() answer {
		const body = 64 << 10
		h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{Body: body, Bodies: 1, BodiesWait: time.Millisecond, BodyTime: time.Second}})
		slow, finish := half(body)
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/agui/chat", slow)
		req.ContentLength = body
		req.Header.Set("Content-Type", "application/json")
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.direct(req)
		}()
		h.holds(t, body)
		got := h.do("POST", "/api/agui/chat", `{"prompt":"`+strings.Repeat("x", body/2)+`"}`)
		finish()
		<-done
		return got
	}
}

// TestS33FailedCredentials: after too many refused credentials an address gets 429, and good credentials from there still
// pass.
func TestS33FailedCredentials(t *testing.T) {
	t.Parallel()
	h, ann, _ := people(t, saysN(1), limit.Limits{Failures: limit.Rate{PerSecond: 0.001, Burst: 3}})
	for i := range 5 {
		got := h.do("GET", "/api/threads", "", "Authorization", fmt.Sprintf("Bearer wrong-token-number-%d", i))
		want := 401
		if i >= 3 {
			want = 429
		}
		if got.status != want {
			t.Errorf("try %d: %d %s, want %d", i+1, got.status, got.body, want)
		}
	}
	for what, got := range map[string]answer{
		"sign-in": h.do("POST", "/api/session", `{"token":"wrong-token-of-length"}`),
		"link":    h.do("POST", "/decide/none", `{}`),
	} {
		if got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	if got := h.do("GET", "/api/threads", "", "Authorization", "Bearer "+ann); got.status != 200 {
		t.Errorf("a good token: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/api/threads", ""); got.status != 401 {
		t.Errorf("no token at all: %d, want 401", got.status)
	}
	if n, _ := h.gauge(`aqueduct_limit_refusals_total{limit="credentials"} `); n != 7 {
		t.Errorf("%v refused credentials are counted, want 7", n)
	}
}

// TestS34EqualReplies: whether a user, thread, run or approval exists cannot be seen by who may
// not know it.
func TestS34EqualReplies(t *testing.T) {
	t.Parallel()
	h, ann, ben := people(t, asks, limit.Limits{})
	h.do("POST", "/api/agui/chat", inputBody("T", "R", "hi"), "Authorization", "Bearer "+ann)
	id := h.question()
	for _, c := range []struct{ method, path, there, absent, body string }{
		{"GET", "/api/threads/%s", "T", "N", ""},
		{"GET", "/api/threads/%s/messages", "T", "N", ""},
		{"GET", "/api/runs/%s", "R", "N", ""},
		{"POST", "/api/runs/%s/cancel", "R", "N", `{}`},
		{"GET", "/api/approvals/%s", id, "0199aaaa-0000-7000-8000-000000000000", ""},
		{"POST", "/api/approvals/%s/decision", id, "0199aaaa-0000-7000-8000-000000000000", `{"decision":"approve"}`},
		{"POST", "/api/tool_calls/%s/result", id, "0199aaaa-0000-7000-8000-000000000000", `{"result":1}`},
	} {
		there := h.do(c.method, fmt.Sprintf(c.path, c.there), c.body, "Authorization", "Bearer "+ben)
		absent := h.do(c.method, fmt.Sprintf(c.path, c.absent), c.body, "Authorization", "Bearer "+ben)
		if there.status != 404 || there.body != absent.body || there.status != absent.status {
			t.Errorf("%s %s: %d %s, absent %d %s", c.method, c.path, there.status, there.body, absent.status, absent.body)
		}
	}
}
