package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/server/auth"
)

// TestS41ContractSnippet opens as it stands where no token is asked for, with a ticket in either place too.
func TestS41ContractSnippet(t *testing.T) {
	t.Parallel()
	open := newEnvWith(t, saysN(1), plan{auth: auth.None(), revoke: true})
	got := open.do("POST", "/api/tickets", `{"path":"/agent_backend/ws/session_id"}`)
	if got.status != http.StatusCreated {
		t.Fatal(got.status, got.body)
	}
	for name, query := range map[string]string{"as it stands": "", "with a ticket": "?ticket=" + ticketIn(got), "with any": "?ticket=x"} {
		conn, _, err := open.dial("/agent_backend/ws/session_id"+query, "Origin", open.URL)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, message := range []any{map[string]string{"type": "ticket", "ticket": "x"}, map[string]string{"type": "get_agent_status"}} {
			if err := conn.WriteJSON(message); err != nil {
				t.Fatal(name, err)
			}
		}
		if _, raw, err := conn.ReadMessage(); err != nil || !strings.Contains(string(raw), "agent_status") {
			t.Errorf("%s: %s %v", name, raw, err)
		}
	}
	// On plain http it needs the ticket, and the refusal names it: as 401 for a program, with the close code for a page.
	h, _ := guarded(t, plan{})
	session := h.signedIn(goodToken)
	if got := h.do("GET", "/agent_backend/ws/session_id", "", session.cookie("Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")...); got.status != 401 ||
		!strings.Contains(got.body, "?ticket=") || !strings.Contains(got.body, "POST /api/tickets") || !strings.Contains(got.body, auth.PageHeader) {
		t.Errorf("a program: %d %s", got.status, got.body)
	}
	for name, first := range map[string]string{"another message": `{"type":"get_agent_status"}`, "a wrong ticket": `{"type":"ticket","ticket":"aqt_x_1_y"}`, "no JSON": "ticket"} {
		conn, _, err := h.dial("/agent_backend/ws/session_id", session.cookie("Origin", h.URL)...)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // a page goes on
			_ = conn.WriteMessage(websocket.TextMessage, []byte(first))
		}
		_, raw, err := conn.ReadMessage()
		bye, _ := err.(*websocket.CloseError)
		if bye == nil || bye.Code != websocket.ClosePolicyViolation || !strings.Contains(bye.Text, "?ticket=") || !strings.Contains(bye.Text, "POST /api/tickets") || len(bye.Text) > 123 {
			t.Errorf("%s: %s %v", name, raw, err)
		}
	}
	// A page that sends nothing, as the contract's.
	if _, code, reason := h.closing("/agent_backend/ws/session_id", session.cookie("Origin", h.URL)...); code != websocket.ClosePolicyViolation || !strings.Contains(reason, "docs/access.md") {
		t.Errorf("closed with %d %q", code, reason)
	}
}

// TestS41Tickets: a ticket opens one path with a GET, once, for the session that got it, before it expires.
func TestS41Tickets(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h, token := guarded(t, plan{open: db.open})
		session, other := h.signedIn(goodToken), h.signedIn(token("bob"))
		const events = "/api/approvals"
		get := func(path string, header ...string) int { return h.do("GET", path, "", header...).status }
		with := func(path, ticket string) string { return path + "?ticket=" + ticket }

		once := h.ticket(session, events+"?after=7")
		for range 2 { // whatever fails uses nothing up
			for name, c := range map[string]struct {
				path   string
				header []string
			}{
				"without the cookie": {with(events, once), nil}, "another session": {with(events, once), other.cookie()}, "another path": {with("/api/threads", once), session.cookie()},
				"below": {with(events+"/x", once), session.cookie()}, "a slash more": {with(events+"/", once), session.cookie()}, "twice": {with(events, once) + "&ticket=" + once, session.cookie()},
				"in two": {with(events, once) + "&ticket=", session.cookie()}, "as a bearer": {events, append(session.cookie(), "Authorization", "Bearer "+once)},
				"as the secret": {events, append(session.cookie(), auth.PageHeader, once)}, "in another parameter": {events + "?token=" + once, session.cookie()},
				"a wrong secret beside it": {with(events, once), append(session.cookie(), auth.PageHeader, "x")}, "cut": {with(events, once[:len(once)-1]), session.cookie()},
				"later": {with(events, strings.Replace(once, "_1", "_2", 1)), session.cookie()}, "empty": {with(events, ""), session.cookie()},
			} {
				if got := get(c.path, c.header...); got != 401 && got != 429 && got != 404 {
					t.Errorf("%s: %d", name, got)
				}
			}
		}
		for name, c := range map[string]struct{ method, path string }{
			"a POST": {"POST", "/api/approvals/decisions"}, "a ticket for a POST": {"POST", "/api/tickets"}, "a DELETE": {"DELETE", "/api/session"}, "a PUT": {"PUT", "/v1/context/k"},
		} {
			if got := h.do(c.method, with(c.path, h.ticket(session, c.path)), "{}", session.cookie()...); got.status != 401 && got.status != 429 {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if got := get(with(events, once)+"&limit=3", session.cookie()...); got != 200 {
			t.Errorf("the first use: %d", got)
		}
		if got := get(with(events, once), session.cookie()...); got != 401 && got != 429 {
			t.Errorf("the second use: %d", got)
		}
		// Of many at once one is first.
		raced := h.ticket(session, events)
		var won atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if get(with(events, raced), session.cookie()...) == 200 {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of 16 used one ticket", won.Load())
		}
		// A HEAD is a GET of the same path; an id keeps its encoding.
		if got := h.do("HEAD", with(events, h.ticket(session, events)), "", session.cookie()...); got.status != 200 && got.status != 405 {
			t.Errorf("HEAD: %d", got.status)
		}
		for _, id := range []string{"a%2Fb", "d%C3%A9j%C3%A0", "a b"} {
			path := "/api/threads/" + strings.ReplaceAll(id, " ", "%20") + "/events"
			if got := get(with(path, h.ticket(session, path)), session.cookie()...); got == 401 {
				t.Errorf("%s: %d", path, got)
			}
		}
		// Signing out ends the tickets that were not used.
		last := h.ticket(session, events)
		if got := h.do("DELETE", "/api/session", "", session.all()...); got.status != 204 {
			t.Fatal(got.status)
		}
		if got := get(with(events, last), session.cookie()...); got != 401 && got != 429 {
			t.Errorf("after signing out: %d", got)
		}
	})
}

// TestS41TicketOfReplicas: of two replicas on one database one lets a ticket in.
func TestS41TicketOfReplicas(t *testing.T) {
	t.Parallel()
	for name, databases := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, second := databases(t)
			f := newTeam(t, saysN(1), open, second)
			_, port, _ := strings.Cut(strings.TrimPrefix(f.URL, "http://"), ":")
			host := "127.0.0.1:" + port // the browser's, through a load balancer
			session := f.signedIn(f.token(t, auth.TypeUser, "ada"))
			for range 20 {
				ticket := f.ticket(session, "/api/threads")
				var won atomic.Int32
				var all sync.WaitGroup
				for _, h := range []*env{f.env, f.there, f.env, f.there} {
					all.Go(func() {
						if h.do("GET", "/api/threads?ticket="+ticket, "", session.cookie("Host", host)...).status == 200 {
							won.Add(1)
						}
					})
				}
				all.Wait()
				if won.Load() != 1 {
					t.Fatalf("%d requests used one ticket", won.Load())
				}
			}
		})
	}
}

// TestS41TicketRefused: who gets none, and for what.
func TestS41TicketRefused(t *testing.T) {
	t.Parallel()
	h, token := guarded(t, plan{})
	session := h.signedIn(token("ada"))
	for path, want := range map[string]int{
		"/ws/client": 201, "/api/threads/a%2Fb/events?x=1": 201, "ws/client": 400, "": 400, "ws://localhost/ws/client": 400, "//evil.example/x": 400, "http://evil.example": 400, `/\\evil.example/x`: 400, `/\t/evil.example/x`: 400, "/x#y": 400, "/" + strings.Repeat("x", 3000): 400,
	} {
		if got := h.do("POST", "/api/tickets", `{"path":"`+path+`"}`, session.all()...); got.status != want {
			t.Errorf("%.40s: %d %s", path, got.status, got.body)
		}
	}
	for name, header := range map[string][]string{"the token": bearerOf(goodToken), "a user's": bearerOf(token("ada"))} {
		if got := h.do("POST", "/api/tickets", `{"path":"/ws/client"}`, header...); got.status != 403 || fields(t, got)["code"] != "session_required" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := h.do("POST", "/api/tickets", `{"path":"/ws/client"}`, session.cookie()...); got.status != 401 {
		t.Errorf("the cookie alone: %d", got.status)
	}
}

// TestS41TicketExpires: the end is signed, and 30 seconds away. The test signs tickets as the page's secret lets the server do.
func TestS41TicketExpires(t *testing.T) {
	t.Parallel()
	h, token := guarded(t, plan{})
	session := h.signedIn(token("ada"))
	parts := strings.Split(h.ticket(session, "/api/threads"), "_")
	ends, err := strconv.ParseInt(parts[2], 10, 64)
	if left := time.Until(time.Unix(ends, 0)); err != nil || left > auth.TicketTime || left < auth.TicketTime-15*time.Second {
		t.Errorf("it lives for %s", left)
	}
	for at, want := range map[time.Duration]int{auth.TicketTime: 200, -time.Second: 401, -time.Hour: 401} {
		end := strconv.FormatInt(time.Now().Add(at).Unix(), 10)
		mac := hmac.New(sha256.New, []byte(session.page))
		mac.Write([]byte("aqueduct ticket\x00GET\x00/api/threads\x00" + parts[1] + "\x00" + end))
		ticket := "aqt_" + parts[1] + "_" + end + "_" + hex.EncodeToString(mac.Sum(nil))
		if got := h.do("GET", "/api/threads?ticket="+ticket, "", session.cookie()...); got.status != want {
			t.Errorf("one that ends in %s: %d", at, got.status)
		}
	}
}

// TestS41Sockets: every socket for callers takes a ticket in its URL, or as its first message, for its own path.
func TestS41Sockets(t *testing.T) {
	t.Parallel()
	h, token := guarded(t, plan{})
	session := h.signedIn(token("ada"))
	for _, path := range []string{"/ws/client", "/ws/permissions", "/ws/permissions/T", "/agent_backend/ws", "/agent_backend/ws/T"} {
		query, message := h.ticket(session, path), h.ticket(session, path)
		dial := func(query string) *websocket.Conn {
			conn, resp, err := h.dial(path+query, session.cookie("Origin", h.URL)...)
			if err != nil {
				t.Fatal(path, resp, err)
			}
			return conn
		}
		open := func(conn *websocket.Conn) error {
			_ = conn.WriteJSON(map[string]string{"type": "get_agent_status"})
			if path == "/ws/client" { // it reads nothing
				h.hints.PublishAll([]byte(`{"type":"workspace_inventory","proxy_id":"p","instance_name":"i","inventory":[]}`))
				_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			}
			_, _, err := conn.ReadMessage()
			if bye, ok := err.(*websocket.CloseError); ok {
				return bye
			}
			return nil
		}
		if err := open(dial("?ticket=" + query)); err != nil {
			t.Errorf("%s, in the URL: %v", path, err)
		}
		conn := dial("")
		if err := conn.WriteJSON(map[string]string{"type": "ticket", "ticket": message}); err != nil {
			t.Fatal(err)
		}
		if err := open(conn); err != nil {
			t.Errorf("%s, as the first message: %v", path, err)
		}
		for name, used := range map[string]string{"used in the URL": query, "used as a message": message, "for another path": h.ticket(session, "/ws/x")} {
			conn := dial("")
			_ = conn.WriteJSON(map[string]string{"type": "ticket", "ticket": used})
			if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
				t.Errorf("%s, %s: %v", path, name, err)
			}
		}
	}
	// A refusal of the handler is a close frame then.
	approver := h.signedIn(token("eve", auth.RoleAuditor))
	ticket := h.ticket(approver, "/ws/client")
	conn, _, err := h.dial("/ws/client", approver.cookie("Origin", h.URL)...)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.WriteJSON(map[string]string{"type": "ticket", "ticket": ticket})
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) || !strings.Contains(err.Error(), "role_required") {
		t.Error(err)
	}
	// The contract's channel has its own first message.
	hello := func(fields string) string {
		conn, _, err := h.dial("/ws/ingress", session.cookie("Origin", h.URL)...)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello"`+fields+`}`))
		_, raw, _ := conn.ReadMessage()
		return string(raw)
	}
	if got := hello(""); !strings.Contains(got, "unauthorized") || !strings.Contains(got, "POST /api/tickets") {
		t.Errorf("a hello with the cookie alone: %s", got)
	}
	if got := hello(`,"ticket":"` + h.ticket(session, "/ws/ingress") + `"`); !strings.Contains(got, "hello_ok") {
		t.Errorf("a hello with a ticket: %s", got)
	}
}
