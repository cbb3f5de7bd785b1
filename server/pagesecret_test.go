package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// browserSession is what a browser and its page hold after a sign-in: the cookie, and the page's secret.
type browserSession struct{ value, page string }

// sessionOf reads the answer to a sign-in.
func sessionOf(a answer) browserSession {
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return browserSession{cookie, a.header.Get(auth.PageHeader)}
}

// signedIn signs a browser in with a token.
func (h *env) signedIn(token string) browserSession {
	h.t.Helper()
	got := h.do("POST", "/api/session", `{"token":"`+token+`"}`)
	session := sessionOf(got)
	if got.status != 204 || session.value == "" || session.page == "" {
		h.t.Fatalf("signing in: %d %v %s", got.status, got.header, got.body)
	}
	return session
}

// all are the headers of a request of the page; more may follow.
func (s browserSession) all(more ...string) []string {
	return append([]string{"Cookie", s.value, auth.PageHeader, s.page}, more...)
}

// cookie are the headers of a request that only the browser's jar adds something to.
func (s browserSession) cookie(more ...string) []string {
	return append([]string{"Cookie", s.value}, more...)
}

// ticket gets one for a path.
func (h *env) ticket(s browserSession, path string) string {
	h.t.Helper()
	got := h.do("POST", "/api/tickets", `{"path":"`+path+`"}`, s.all()...)
	if got.status != http.StatusCreated || got.header.Get("Cache-Control") != "no-store" {
		h.t.Fatalf("a ticket for %s: %d %s", path, got.status, got.body)
	}
	return ticketIn(got)
}

// ticketIn reads the ticket of an answer.
func ticketIn(a answer) string {
	var body struct{ Ticket string }
	_ = json.Unmarshal([]byte(a.body), &body) // "" opens nothing
	return body.Ticket
}

// guarded is a server with sessions in a database, and tokens of people.
func guarded(t *testing.T, p plan) (*env, func(user string, roles ...string) string) {
	t.Helper()
	keys := signing(t)
	p.auth, p.revoke = static(t).WithKeys(keys), true
	return newEnvWith(t, saysN(1), p), func(user string, roles ...string) string {
		return issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: roles}}, time.Hour)
	}
}

// guardedRoute reports whether a route wants to know who calls. The others are the page's files, what checks a credential of its own, and
// the sign-in.
func guardedRoute(route string) bool {
	method, path, _ := strings.Cut(route, " ")
	return !openRoute(path) && !strings.HasPrefix(path, "/api/session/oidc/") && path != "/ws/agent" || route == "DELETE /api/session" || route == "POST /mcp" ||
		strings.HasPrefix(path, "/agent_backend/") && method == "GET"
}

// TestS41CookieOtherPort: a program on another port of the host name is sent the session's cookie by every browser. The cookie
// alone opens no route and no socket, whatever Origin, Host or secret the program adds, and the row of the session does not help.
func TestS41CookieOtherPort(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h, token := guarded(t, plan{open: db.open, origins: []string{"https://app.example"}, hosts: []string{"app.example"}})
		other := h.signedIn(token("ada", auth.RoleAdmin))
		for who, session := range map[string]browserSession{"the static token": h.signedIn(goodToken), "an admin": h.signedIn(token("ada", auth.RoleAdmin))} {
			_, value, _ := strings.Cut(session.value, "=")
			for _, route := range h.server.Routes() {
				if !guardedRoute(route) {
					continue
				}
				method, path, _ := strings.Cut(route, " ")
				path = strings.NewReplacer(":id", "x", ":session_id", "x").Replace(path)
				for name, header := range map[string][]string{
					"bare": nil, "a page of ours": {"Origin", h.URL, "Sec-Fetch-Site", "same-origin"}, "the name of https": {"Host", "app.example", "Origin", "https://app.example"},
					"an empty secret": {auth.PageHeader, ""}, "a guess": {auth.PageHeader, strings.Repeat("0", 64)}, "the cookie as the secret": {auth.PageHeader, value},
					"another session's": {auth.PageHeader, other.page}, "the port forwarded": {"X-Forwarded-Proto", "https", "Forwarded", "proto=https"},
				} {
					got := h.do(method, path, "{}", session.cookie(header...)...)
					if got.status != 401 && got.status != 429 {
						t.Errorf("%s, %s with the cookie, %s: %d %.120s", who, route, name, got.status, got.body)
					}
				}
			}
			// A cookie of https under the name of plain http, and the other way round.
			for _, as := range []string{"__Host-" + session.value, "aqueduct_session=" + value, "__Host-aqueduct_session=" + value, strings.Replace(session.value, "_session_", "_session_1", 1)} {
				if got := h.do("GET", "/api/threads", "", "Cookie", as, auth.PageHeader, session.page); got.status != 401 {
					t.Errorf("%s as %.30s: %d", who, as, got.status)
				}
			}
			if got := h.do("GET", "/api/session", "", session.cookie()...); !strings.Contains(got.body, `"signedIn":false`) || got.header.Get(auth.PageHeader) != "" {
				t.Errorf("%s is signed in by the cookie: %s %v", who, got.body, got.header)
			}
			if got := h.do("GET", "/api/session", "", session.all()...); !strings.Contains(got.body, `"signedIn":true`) {
				t.Errorf("%s is not signed in: %s", who, got.body)
			}
		}
	})
}

// TestS41CookieAlone: the cookie is enough over https under a name that is not of this machine, and nowhere else. The session
// decides that, and not the request: a program that has the cookie chooses the Host.
func TestS41CookieAlone(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(keys).WithSecureCookies(), revoke: true, hosts: []string{"chat.example"}, origins: []string{"https://app.example"}})
	user := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}}, time.Hour)
	for host, enough := range map[string]bool{
		"chat.example": true, "CHAT.example:8443": true, "localhost": false, "localhost:8443": false, "a.localhost.": false, "127.0.0.1": false, "127.9.9.9:1": false, "[::1]:8443": false, "[::ffff:127.0.0.1]": false,
	} {
		for who, token := range map[string]string{"static": goodToken, "user": user} {
			got := h.do("POST", "/api/session", `{"token":"`+token+`"}`, "Host", host)
			if got.status == 421 {
				continue // a name that this server does not go by
			}
			session := sessionOf(got)
			name, _, _ := strings.Cut(session.value, "=")
			if !strings.HasPrefix(name, "__Host-aqueduct_session") || session.page == "" {
				t.Fatalf("%s at %s: %d %v", who, host, got.status, got.header)
			}
			_, value, _ := strings.Cut(session.value, "=")
			for _, at := range []string{host, "chat.example", "localhost:9"} {
				for named := range strings.FieldsSeq(name + " __Host-aqueduct_session __Host-aqueduct_session_9") {
					got := h.do("GET", "/api/threads", "", "Cookie", named+"="+value, "Host", at)
					if got.status == 200 && !enough || at == host && named == name && enough && got.status != 200 {
						t.Errorf("%s signed in at %s, the cookie at %s as %s: %d", who, host, at, named, got.status)
					}
				}
			}
			if got := h.do("GET", "/api/threads", "", session.all("Host", host)...); got.status != 200 {
				t.Errorf("%s at %s with the secret: %d", who, host, got.status)
			}
		}
	}
	// The permission contract's snippet, as it stands, from an allowed origin over https.
	session := sessionOf(h.do("POST", "/api/session", `{"token":"`+goodToken+`"}`, "Host", "chat.example"))
	conn, _, err := h.dial("/agent_backend/ws/session_id", session.cookie("Host", "chat.example", "Origin", "https://app.example")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.WriteJSON(map[string]string{"type": "get_agent_status"}); err != nil {
		t.Fatal(err)
	}
	if _, raw, err := conn.ReadMessage(); err != nil || !strings.Contains(string(raw), "agent_status") {
		t.Errorf("%s %v", raw, err)
	}
}

// TestS41StaticSessionMintsNothing: what a session of the static token makes would outlive it. With the token itself it is made.
func TestS41StaticSessionMintsNothing(t *testing.T) {
	t.Parallel()
	h, token := guarded(t, plan{})
	for path, body := range map[string]string{
		"/api/tokens": `{"type":"user","user":"eve"}`, "/api/service_accounts": `{"name":"ci","roles":["user"]}`,
	} {
		session := h.signedIn(goodToken)
		if got := h.do("POST", path, body, session.all()...); got.status != 403 || fields(t, got)["code"] != "token_required_again" {
			t.Errorf("%s by a session: %d %s", path, got.status, got.body)
		}
		if got := h.do("POST", path, body, session.all("Authorization", "Bearer "+goodToken)...); got.status != 201 {
			t.Errorf("%s with the token typed again: %d %s", path, got.status, got.body)
		}
		if got := h.do("POST", path, body, h.signedIn(token("boss", auth.RoleAdmin, auth.RoleUser)).all()...); got.status != 201 {
			t.Errorf("%s by an admin's session: %d %s", path, got.status, got.body)
		}
	}
	rows, err := h.store.Credentials(t.Context(), store.System(), store.CredentialFilter{})
	if rows = slices.DeleteFunc(rows, func(c store.Credential) bool { return c.User != "eve" }); err != nil || len(rows) != 2 {
		t.Errorf("%+v %v", rows, err)
	}
}

// TestS41TwoServersOnOneHost do not sign each other out: their cookies have two names.
func TestS41TwoServersOnOneHost(t *testing.T) {
	t.Parallel()
	one, two := newEnvWith(t, saysN(1), plan{auth: static(t)}), newEnvWith(t, saysN(1), plan{auth: static(t)})
	a, b := one.signedIn(goodToken), two.signedIn(goodToken)
	for h, page := range map[*env]string{one: a.page, two: b.page} {
		if got := h.do("GET", "/api/threads", "", "Cookie", a.value+"; "+b.value, auth.PageHeader, page); got.status != 200 {
			t.Errorf("%s with the cookies of both: %d", h.URL, got.status)
		}
	}
	port := one.URL[strings.LastIndex(one.URL, ":")+1:]
	if !strings.HasPrefix(a.value, "aqueduct_session_"+port+"=") {
		t.Errorf("the cookie is %.40s", a.value)
	}
}

// TestS41SignInAtAProvider: the page that comes back gets its secret for the ticket in its address, once, and with the cookie.
func TestS41SignInAtAProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: p.URL, ClientID: "web", Mapping: auth.Mapping{Tenant: auth.TenantMapping{Claim: "org"}}})
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(signing(t)).WithOIDC(o), revoke: true})
	signIn := func() (session browserSession, ticket string) {
		cookie, asked := h.begin()
		p.claims = map[string]any{"nonce": asked.Get("nonce"), "org": "acme"}
		got := h.noRedirect("GET", "/api/session/oidc/callback?code=c&state="+asked.Get("state"), "Cookie", cookie)
		set := got.header.Values("Set-Cookie")
		i := slices.IndexFunc(set, func(c string) bool { return strings.HasPrefix(c, "aqueduct_session_") })
		ticket, ok := strings.CutPrefix(got.header.Get("Location"), "/#signed-in=")
		if i < 0 || !ok || got.header.Get(auth.PageHeader) != "" {
			t.Fatalf("%d %v", got.status, got.header)
		}
		session.value, _, _ = strings.Cut(set[i], ";")
		if ticket, err = url.QueryUnescape(ticket); err != nil {
			t.Fatal(err)
		}
		return session, ticket
	}
	session, ticket := signIn()
	other, _ := signIn()
	trade := func(ticket string, header ...string) answer {
		return h.do("POST", "/api/session", `{"ticket":"`+ticket+`"}`, header...)
	}
	for name, header := range map[string][]string{"without the cookie": nil, "another's cookie": other.cookie(), "a guess beside it": nil} {
		if got := trade(ticket, header...); got.status != 401 || got.header.Get(auth.PageHeader) != "" {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := h.do("GET", "/api/threads?ticket="+ticket, "", session.cookie()...); got.status != 401 {
		t.Errorf("elsewhere: %d", got.status)
	}
	got := trade(ticket, session.cookie()...)
	session.page = got.header.Get(auth.PageHeader)
	if got.status != 204 || session.page == "" || got.header.Get("Set-Cookie") != "" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	if got := trade(ticket, session.cookie()...); got.status != 401 {
		t.Errorf("again: %d", got.status)
	}
	if got := trade(h.ticket(session, "/api/session"), session.cookie()...); got.status != 401 {
		t.Errorf("a ticket that a page got: %d", got.status)
	}
	if got := h.do("GET", "/api/threads", "", session.all()...); got.status != 200 {
		t.Errorf("the session: %d", got.status)
	}
}

// TestS41TicketsStayOutOfSight: no log, audit entry or answer repeats a ticket or a secret.
func TestS41TicketsStayOutOfSight(t *testing.T) {
	t.Parallel()
	log := &lines{}
	h, token := guarded(t, plan{log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	session := h.signedIn(token("ada", auth.RoleAdmin))
	ticket := h.ticket(session, "/api/threads/none/events")
	said := h.do("GET", "/api/threads/none/events?ticket="+ticket, "", session.cookie()...).body + h.do("GET", "/api/threads?ticket="+ticket, "", session.cookie()...).body +
		h.do("GET", "/api/audit?limit=100", "", session.all()...).body + h.do("GET", "/api/tokens", "", session.all()...).body + log.buf.String()
	if strings.Contains(said, ticket) || strings.Contains(said, session.page) {
		t.Error("a ticket or a secret was repeated")
	}
}

// TestS41PageOfAnotherOrigin: a page that --cors-origin lists can read its secret and send it; no other page can.
func TestS41PageOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t), origins: []string{"http://127.0.0.1:5173"}})
	const body = `{"token":"` + goodToken + `"}`
	asks := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-aqueduct-page"}
	listed, other := []string{"Origin", "http://127.0.0.1:5173"}, []string{"Origin", "http://127.0.0.1:22214"}
	if got := h.do("OPTIONS", "/api/tickets", "", append(asks, listed...)...); !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "x-aqueduct-page") {
		t.Errorf("the preflight: %d %v", got.status, got.header)
	}
	if got := h.do("POST", "/api/session", body, listed...); got.status != 204 || !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), auth.PageHeader) {
		t.Errorf("the sign-in: %d %v", got.status, got.header)
	}
	if got := h.do("OPTIONS", "/api/tickets", "", append(asks, other...)...); got.status != 403 || got.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("another port's preflight: %d %v", got.status, got.header)
	}
	if got := h.do("POST", "/api/session", body, other...); got.status != 403 || got.header.Get(auth.PageHeader) != "" || got.header.Get("Access-Control-Expose-Headers") != "" {
		t.Errorf("another port's sign-in: %d %v", got.status, got.header)
	}
}
