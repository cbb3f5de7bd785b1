package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/internal/app"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// team is a server with tokens that can be revoked, and another replica of it.
type team struct {
	*env
	keys  *auth.Keys
	there *env
}

// teams are one on SQLite, whose replicas share a store, and one on PostgreSQL, each with its own.
func teams() map[string]func(t *testing.T) (open, second func(t testing.TB) (store.Store, error)) {
	return map[string]func(t *testing.T) (open, second func(t testing.TB) (store.Store, error)){
		"sqlite": func(*testing.T) (open, second func(t testing.TB) (store.Store, error)) {
			return func(t testing.TB) (store.Store, error) {
				return sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
			}, nil
		},
		"postgres": func(t *testing.T) (open, second func(t testing.TB) (store.Store, error)) {
			dsn := storetest.Postgres(t)
			both := func(t testing.TB) (store.Store, error) {
				return postgres.Open(context.Background(), dsn, postgres.Options{Tracer: &sentPostgres})
			}
			return both, both
		},
	}
}

func newTeam(t *testing.T, script script, open, second func(t testing.TB) (store.Store, error)) *team {
	t.Helper()
	p, keys := keyed(t)
	p.revoke, p.open = true, open
	h := newEnvWith(t, script, p)
	return &team{env: h, keys: keys, there: h.second(t, keys, second)}
}

// second is another replica of the env, which drives nothing.
func (h *env) second(t *testing.T, keys *auth.Keys, open func(t testing.TB) (store.Store, error)) *env {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	st := h.store
	if open != nil {
		var err error
		if st, err = open(t); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
	}
	registry := auth.NewRegistry(st, logger)
	made, err := app.New(app.Config{
		Store: st, Broker: storetest.Broker(), Logger: logger, Auth: auth.Typed(keys).WithRegistry(registry), Agents: bridge.NewDirectory(), Metrics: server.NewMetrics(),
	})
	if err != nil {
		t.Fatal(err)
	}
	other := *h
	other.server, other.hints = made.Server, made.Hints
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })
	running.Go(func() { _ = made.Bell.Run(ctx) })
	running.Go(func() { _ = made.Hints.Run(ctx) })
	web := httptest.NewServer(other.server)
	other.URL = web.URL
	t.Cleanup(func() {
		other.server.Drain()
		http.DefaultClient.CloseIdleConnections()
		web.Close()
		cancel()
		running.Wait()
	})
	return &other
}

func (f *team) token(t *testing.T, of auth.Type, user string, roles ...string) string {
	t.Helper()
	return issue(t, f.keys, auth.Claims{Type: of, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: roles}}, time.Hour)
}

// jti is the id of the credential that a token is.
func (h *env) jti(header ...string) string {
	h.t.Helper()
	a := h.do("GET", "/api/tokens", "", header...)
	var out struct {
		Tokens []struct {
			JTI     string
			Current bool
		}
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		h.t.Fatal(a)
	}
	for _, one := range out.Tokens {
		if one.Current {
			return one.JTI
		}
	}
	h.t.Fatalf("the token that was shown is not listed: %s", a.body)
	return ""
}

// ended waits until every stream and socket has ended, and returns how long the last took.
func ended(t *testing.T, since time.Time, open map[string]func() error) time.Duration {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var last time.Duration
	for name, wait := range open {
		all.Go(func() {
			err := wait()
			took := time.Since(since)
			mu.Lock()
			defer mu.Unlock()
			if last = max(last, took); took > 15*time.Second {
				t.Errorf("%s was open for %s after the revocation (%v)", name, took, err)
			}
		})
	}
	all.Wait()
	return last
}

// untilCut reads a stream or a socket to its end.
func untilCut(r *http.Response) func() error {
	return func() error { _, err := io.Copy(io.Discard, r.Body); return err }
}

func untilClosed(conn *websocket.Conn) func() error {
	return func() error {
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				if !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
					return fmt.Errorf("closed otherwise: %w", err)
				}
				return nil
			}
		}
	}
}

// TestS14RevocationEndsWhatIsOpen: every kind of stream and socket of a token ends, on the replica that revokes it and on
// another; a decision on a socket that is still open is refused at once, and so is one by REST; others go on.
func TestS14RevocationEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	for name, databases := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, second := databases(t)
			f := newTeam(t, asks, open, second)
			ada, bob, boss := f.token(t, auth.TypeUser, "ada"), f.token(t, auth.TypeUser, "bob"), f.token(t, auth.TypeUser, "boss", auth.RoleAdmin)
			adas := f.requests("R1", "asked", ada)
			f.open(adas).rest() // it has asked, and the Run has ended
			asked := f.approvalOf("asked", ada)

			streams := map[string]*http.Response{}
			sockets := map[string]*websocket.Conn{}
			for place, h := range map[string]*env{"here": f.env, "there": f.there} {
				for _, path := range []string{"/api/threads/asked/events", "/api/approvals"} {
					streams[place+path] = h.open(h.request("GET", path, "", append(bearerOf(ada), "Accept", "text/event-stream")...)).resp
				}
				for _, path := range []string{"/ws/client", "/ws/permissions", "/ws/permissions/asked"} {
					conn, resp, err := h.dial(path, bearerOf(ada)...)
					if err != nil {
						t.Fatal(path, resp, err)
					}
					sockets[place+path] = conn
				}
				channel, resp, err := h.dial("/ws/ingress")
				if err != nil {
					t.Fatal(resp, err)
				}
				if err := channel.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"hello","user_id":"ada","api_key":%q}`, ada)); err != nil {
					t.Fatal(err)
				}
				sockets[place+"/ws/ingress"] = channel
			}
			others := f.there.open(f.there.request("GET", "/api/approvals", "", append(bearerOf(bob), "Accept", "text/event-stream")...))
			jti := f.jti(bearerOf(ada)...)

			began := time.Now()
			if a := f.do("DELETE", "/api/tokens/"+jti, "", bearerOf(boss)...); a.status != 204 {
				t.Fatal(a)
			}
			// On the other replica nothing has been looked at again yet; decisions are refused all the same.
			decide := sockets["there/ws/permissions/asked"]
			say := fmt.Sprintf(`{"type":"agent_tool_permission_response","data":{"execution_id":%q,"approved":true}}`, asked)
			if err := decide.WriteMessage(websocket.TextMessage, []byte(say)); err != nil {
				t.Fatal(err)
			}
			for answered := false; !answered; {
				_, raw, err := decide.ReadMessage()
				if err != nil {
					t.Fatalf("the decision was not answered: %v", err)
				}
				answered = strings.Contains(string(raw), `"unauthorized"`)
			}
			channel := sockets["there/ws/ingress"]
			if err := channel.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"approval_decision","request_id":"d1","approval_id":%q,"approved":true}`, asked)); err != nil {
				t.Fatal(err)
			}
			if a := f.there.do("POST", "/api/approvals/"+asked+"/decision", `{"approved":true}`, bearerOf(ada)...); a.status != 401 {
				t.Errorf("a decision by REST: %+v", a)
			}
			if a := f.there.send(f.there.requests("R2", "asked", ada)); a.status != 401 {
				t.Errorf("a chat: %+v", a)
			}
			wait := map[string]func() error{}
			for name, resp := range streams {
				wait[name] = untilCut(resp)
			}
			for name, conn := range sockets {
				wait[name] = untilClosed(conn)
			}
			t.Logf("%s: %d streams and %d sockets on two replicas, the last ended %.1f s after the revocation", name, len(streams), len(sockets), ended(t, began, wait).Seconds())
			if !f.pending(asked) {
				t.Error("the question was decided by a revoked token")
			}
			for place, h := range map[string]*env{"here": f.env, "there": f.there} {
				if a := h.do("GET", "/api/threads", "", bearerOf(ada)...); a.status != 401 || !strings.Contains(a.body, "unauthorized") {
					t.Errorf("%s: %+v", place, a)
				}
				if a := h.do("GET", "/api/threads", "", bearerOf(bob)...); a.status != 200 {
					t.Errorf("%s, another's token: %+v", place, a)
				}
			}
			if others.resp.Request.Context().Err() != nil {
				t.Error("another's stream has ended")
			}
			next := f.token(t, auth.TypeUser, "ada")
			if a := f.do("POST", "/api/approvals/"+asked+"/decision", `{"approved":true}`, bearerOf(next)...); a.status != 200 {
				t.Errorf("a new token of the same user: %+v", a)
			}
		})
	}
}

func (h *env) requests(run, thread, token string) *http.Request {
	req := h.prompt(thread, run, "hi")
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// approvalOf is the question that is open in a thread.
func (h *env) approvalOf(thread, token string) string {
	h.t.Helper()
	a := h.do("GET", "/api/approvals?status=PENDING&thread_id="+thread, "", bearerOf(token)...)
	var out struct {
		Approvals []struct {
			ApprovalID string `json:"approval_id"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || len(out.Approvals) != 1 {
		h.t.Fatalf("%s %v", a.body, err)
	}
	return out.Approvals[0].ApprovalID
}

// pending reports whether a question still is open.
func (h *env) pending(id string) bool {
	h.t.Helper()
	a, err := h.store.Approval(h.t.Context(), store.System(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return a.Status == store.ApprovalPending
}

// TestS14RevokeAllOfAUser: tokens that were used and that were not, sessions and none of another; a new token is good.
func TestS14RevokeAllOfAUser(t *testing.T) {
	t.Parallel()
	for name, databases := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, second := databases(t)
			f := newTeam(t, saysN(1), open, second)
			used, unused, bob := f.token(t, auth.TypeUser, "ada"), f.token(t, auth.TypeUser, "ada"), f.token(t, auth.TypeUser, "bob")
			boss, elsewhere := f.token(t, auth.TypeUser, "boss", auth.RoleAdmin), issue(t, f.keys, auth.Claims{
				Type: auth.TypeUser, Tenant: "other", UserClaims: auth.UserClaims{User: "eve", Roles: []string{auth.RoleAdmin}}}, time.Hour)
			session := f.signedIn(used).all("Host", strings.TrimPrefix(f.URL, "http://")) // the browser's, through a load balancer
			jti := f.jti(bearerOf(used)...)
			for who, token := range map[string]string{"a user": bob, "another tenant's admin": elsewhere} {
				if a := f.do("DELETE", "/api/tokens/"+jti, "", bearerOf(token)...); a.status != 404 || a.body != f.do("DELETE", "/api/tokens/"+uuid.NewString(), "", bearerOf(token)...).body {
					t.Errorf("%s revokes: %+v", who, a)
				}
			}
			if a := f.do("DELETE", "/api/tokens?user=ada", "", bearerOf(bob)...); a.status != 404 {
				t.Errorf("a user revokes another's: %+v", a)
			}
			// Another tenant's user of the same name is another user.
			if a := f.do("DELETE", "/api/tokens?user=ada", "", bearerOf(elsewhere)...); a.status != 200 || !strings.Contains(a.body, `"revoked":0`) {
				t.Errorf("%+v", a)
			}
			if a := f.there.do("GET", "/api/threads", "", session...); a.status != 200 {
				t.Fatalf("the session: %+v", a)
			}
			if a := f.do("DELETE", "/api/tokens?user=ada", "", bearerOf(boss)...); a.status != 200 || !strings.Contains(a.body, `"revoked":2`) {
				t.Fatalf("%+v", a)
			}
			for what, header := range map[string][]string{"used": bearerOf(used), "unused": bearerOf(unused), "session": session} {
				for _, h := range []*env{f.env, f.there} {
					if a := h.do("POST", "/api/agui/chat", inputBody("T", "R", "hi"), header...); a.status != 401 {
						t.Errorf("%s: %+v", what, a)
					}
				}
			}
			if a := f.do("GET", "/api/threads", "", bearerOf(bob)...); a.status != 200 {
				t.Errorf("another user's: %+v", a)
			}
			// Operators of the installation see and revoke those of every tenant; no other caller names another tenant.
			ops := issue(t, f.keys, auth.Claims{Type: auth.TypeOperator, UserClaims: auth.UserClaims{User: "ops"}}, time.Hour)
			bobs := f.jti(bearerOf(bob)...)
			for name, c := range map[string]struct {
				token, path string
				want        int
			}{
				"an operator": {ops, "/api/tokens?tenant=acme", 200}, "an operator, of the installation": {ops, "/api/tokens?installation=true", 200},
				"another's admin": {elsewhere, "/api/tokens?tenant=acme", 404}, "an admin": {boss, "/api/tokens?installation=true", 404},
			} {
				if a := f.do("GET", c.path, "", bearerOf(c.token)...); a.status != c.want || c.want == 200 && strings.Contains(a.body, bobs) != strings.Contains(c.path, "acme") {
					t.Errorf("%s lists %s: %+v", name, c.path, a)
				}
			}
			if a := f.do("DELETE", "/api/tokens?user=bob&tenant=acme", "", bearerOf(elsewhere)...); a.status != 404 {
				t.Errorf("another tenant's admin: %+v", a)
			}
			if a := f.do("DELETE", "/api/tokens/"+bobs, "", bearerOf(ops)...); a.status != 204 {
				t.Errorf("an operator revokes: %+v", a)
			}
			if a := f.there.do("GET", "/api/threads", "", bearerOf(bob)...); a.status != 401 {
				t.Errorf("revoked by an operator: %+v", a)
			}
			if a := f.do("GET", "/api/audit?limit=100", "", bearerOf(boss)...); !strings.Contains(a.body, `"token.revoked_all"`) || strings.Contains(a.body, used) {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestS14SignOutEndsTheSession on the server: the cookie replayed is refused, that of the static token too, and what the session
// had open ends.
func TestS14SignOutEndsTheSession(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(keys), revoke: true})
	person := func(of auth.Type) string {
		return issue(t, keys, auth.Claims{Type: of, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}}, time.Hour)
	}
	for name, token := range map[string]string{"static": goodToken, "user": person(auth.TypeUser), "approver": person(auth.TypeApprover)} {
		one, two := h.signedIn(token).all(), h.signedIn(token).all()
		if slices.Equal(one, two) {
			t.Errorf("%s: two sessions are one", name)
		}
		stream := h.open(h.request("GET", "/api/approvals", "", append(one, "Accept", "text/event-stream")...))
		if a := h.do("DELETE", "/api/session", "", one...); a.status != 204 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Fatalf("%s: %+v", name, a)
		}
		for range 2 {
			if a := h.do("GET", "/api/approvals", "", one...); a.status != 401 {
				t.Errorf("%s: the cookie replayed: %+v", name, a)
			}
		}
		if a := h.do("GET", "/api/approvals", "", two...); a.status != 200 {
			t.Errorf("%s: another session: %+v", name, a)
		}
		if a := h.do("GET", "/api/approvals", "", bearerOf(token)...); a.status != 200 {
			t.Errorf("%s: the token: %+v", name, a)
		}
		if _, err := io.Copy(io.Discard, stream.resp.Body); errors.Is(err, nil) {
			t.Errorf("%s: the stream ended well", name)
		}
	}
}

// TestS14RetiredKeyEndsWhatIsOpen: when a signing key is retired, what its tokens have open ends, and what a newer key's have
// does not.
func TestS14RetiredKeyEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	old, next := auth.NewKey(), auth.NewKey()
	before, err := auth.NewKeys(old)
	if err != nil {
		t.Fatal(err)
	}
	both, err := auth.NewKeys(next, old)
	if err != nil {
		t.Fatal(err)
	}
	after, err := auth.NewKeys(next)
	if err != nil {
		t.Fatal(err)
	}
	var inForce atomic.Pointer[auth.Keys]
	inForce.Store(both)
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithLateKeys(func() (*auth.Keys, error) { return inForce.Load(), nil }), revoke: true})
	open := func(keys *auth.Keys) *http.Response {
		token := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}}, time.Hour)
		return h.open(h.request("GET", "/api/approvals", "", append(bearerOf(token), "Accept", "text/event-stream")...)).resp
	}
	retired, stays := open(before), open(both)
	cut := make(chan error, 1)
	go func() { cut <- untilCut(stays)() }()
	began := time.Now()
	inForce.Store(after)
	t.Logf("the stream ended %.1f s after its key was retired", ended(t, began, map[string]func() error{"the stream": untilCut(retired)}).Seconds())
	select {
	case err := <-cut:
		t.Errorf("the stream of the newer key ended: %v", err)
	default:
	}
	_ = stays.Body.Close()
	<-cut
}

// TestS14RevokedUsersLink: a link to one decision goes with all else that its approver had; its page, opened before, decides nothing.
func TestS14RevokedUsersLink(t *testing.T) {
	t.Parallel()
	h, id := linkEnv(t, plan{})
	path := h.link()
	page, nonce := h.visit(path)
	if page.status != 200 || nonce == "" {
		t.Fatal(page)
	}
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.RevokeCredentials(t.Context(), "local", "local", "boss", time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if again, _ := h.visit(path); again.status != 404 {
		t.Errorf("the page: %d", again.status)
	}
	if got := h.click(path, nonce, pageOption(id, 0)); got.status != 404 || !h.pending(id) {
		t.Errorf("the click: %d %s", got.status, got.body)
	}
}

func bearerOf(token string) []string { return []string{"Authorization", "Bearer " + token} }
