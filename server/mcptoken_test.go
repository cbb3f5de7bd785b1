package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// mcpCredentials are a token and an API key for MCP clients, made over the API.
func mcpCredentials(h *env, by string) map[string]string {
	h.t.Helper()
	var made struct{ Token, Key string }
	for path, body := range map[string]string{"/api/tokens": `{"type":"mcp","user":"ann"}`, "/api/service_accounts": `{"name":"zed","scope":"mcp"}`} {
		got := h.do("POST", path, body, bearerOf(by)...)
		if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != http.StatusCreated {
			h.t.Fatal(got, err)
		}
	}
	return map[string]string{"token": made.Token, "key": made.Key}
}

// TestS46MCPCredentialOpensItsRoute: what the docs give to an MCP client opens POST /mcp, and of all other routes that the server
// has none: it is refused where a caller is wanted, and counts for nothing where none is.
func TestS46MCPCredentialOpensItsRoute(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	for name, token := range mcpCredentials(h, goodToken) {
		for _, route := range h.server.Routes() {
			method, path, _ := strings.Cut(route, " ")
			for param, is := range map[string]string{":id": "none", ":jti": "none", ":share": "none", ":token": "none", ":name": "none", ":call": "cut:invoke", ":key": "none", ":sha256": "none", ":session_id": "none"} {
				path = strings.ReplaceAll(path, param, is)
			}
			body := ""
			if method != "GET" && method != "DELETE" {
				body = `{}`
			}
			shown, without := h.do(method, path, body, bearerOf(token)...), h.do(method, path, body)
			switch {
			case route == "POST /mcp":
				if shown.status == http.StatusUnauthorized || shown.status == http.StatusForbidden {
					t.Errorf("%s: %s gives %d %s", name, route, shown.status, shown.body)
				}
			case shown.status != without.status && shown.status != http.StatusUnauthorized:
				t.Errorf("%s: %s gives %d %s, and %d without a credential", name, route, shown.status, shown.body, without.status)
			case mayCall[route] != "" && shown.status != http.StatusUnauthorized:
				t.Errorf("%s: %s gives %d %s", name, route, shown.status, shown.body)
			}
		}
		if code := h.hello("", token); code == "" {
			t.Errorf("%s: it speaks on /ws/ingress", name)
		}
		if got := h.do("POST", "/api/session", `{"token":"`+token+`"}`); got.status != http.StatusUnauthorized {
			t.Errorf("%s: it signs a browser in: %d %s", name, got.status, got.body)
		}
	}
	for path, bodies := range map[string][]string{
		"/api/tokens":           {`{"type":"mcp","user":"ann","roles":["user"]}`, `{"type":"mcp"}`, `{"type":"user","user":"ann","roles":["mcp"]}`, `{"type":"mcp","user":"ann","channel":"im"}`},
		"/api/service_accounts": {`{"name":"a","scope":"mcp","roles":["user"]}`, `{"name":"a","scope":"mcp","agent":"x"}`, `{"name":"a","roles":["mcp"]}`, `{"name":"a","roles":["mcp","user"]}`, `{"name":"a","scope":"all"}`},
	} {
		for _, body := range bodies {
			if got := h.do("POST", path, body, bearerOf(goodToken)...); got.status < 400 {
				t.Errorf("%s %s: %d %s", path, body, got.status, got.body)
			}
		}
	}
	if got := h.do("POST", "/api/tokens", `{"type":"mcp","user":"ann"}`, bearerOf(callers["m"])...); got.status != http.StatusForbidden {
		t.Errorf("an administrator who is no user makes a token that calls: %d %s", got.status, got.body)
	}
}

// TestS46MCPCredentialWithoutTokens: a server that asks for no token takes these for what they are: the client chose to be no operator.
func TestS46MCPCredentialWithoutTokens(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, saysN(1), plan{auth: auth.None().WithKeys(keys), revoke: true})
	for name, token := range mcpCredentials(h, "") {
		for path, body := range map[string]string{"/api/approvals/decisions": `{"decisions":[]}`, "/api/tokens": `{"type":"user","user":"ann"}`, "/api/agui/chat": inputBody("T", "R", "hi")} {
			if got := h.do("POST", path, body, bearerOf(token)...); got.status != http.StatusUnauthorized {
				t.Errorf("%s: %s gives %d %s", name, path, got.status, got.body)
			}
		}
	}
}

// TestS46MCPCredentialDecidesNothing: a client with such a credential is not asked, and its answer decides nothing, although it
// knows the state of a question that its user was asked. The user decides, and the call runs.
func TestS46MCPCredentialDecidesNothing(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		p, keys := keyed(t)
		p.open, p.revoke = db.open, true
		h := newEnvWith(t, saysN(1), p)
		var ran atomic.Int64
		tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ran.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"ok":true}`)
		}))
		t.Cleanup(tool.Close)
		ann := mcpOf{h, issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{auth.RoleUser, auth.RoleAdmin}}}, time.Hour)}
		if got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":{"verdict":"require_approval"},"schema":{"type":"object"}}`, tool.URL),
			bearerOf(ann.token)...); got.status != 200 {
			t.Fatal(got)
		}
		client := mcpOf{h, mcpCredentials(h, ann.token)["token"]}
		const args = `{"wood":"oak"}`
		asked := ann.calls(args, "").body
		_, state, ok := strings.Cut(asked, `"requestState":"`)
		if !ok {
			t.Fatal(asked)
		}
		state, _, _ = strings.Cut(state, `"`)
		for _, answer := range []string{`{"action":"accept","content":{"decision":"approve"}}`, `{"action":"accept","content":{"decision":"reject"}}`, `{"action":"decline"}`} {
			// The call is held, so its client gives up.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			req := h.request("POST", "/mcp", client.body(args, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":%s}`, state, answer)), client.header()...)
			resp, err := http.DefaultClient.Do(req.WithContext(ctx))
			if err == nil {
				_, err = fmt.Fprint(&strings.Builder{}, resp.Body.Close())
			}
			cancel()
			rows, err2 := h.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{}, store.Page{})
			for _, row := range rows {
				if row.Status != store.ApprovalPending {
					t.Errorf("%s: %s by %s via %s (%v)", answer, row.Status, row.DecidedBy, row.DecidedVia, err)
				}
			}
			if err2 != nil || len(rows) != 1 || ran.Load() != 0 {
				t.Fatalf("%s: %d questions, run %d times, %v", answer, len(rows), ran.Load(), err2)
			}
		}
		id, _, _ := strings.Cut(state, ".")
		if got := h.do("POST", "/api/approvals/"+id+"/decision", `{"decision":"approve"}`, bearerOf(client.token)...); got.status != http.StatusUnauthorized {
			t.Errorf("it decides: %d %s", got.status, got.body)
		}
		if got := h.do("POST", "/api/approvals/"+id+"/decision", `{"decision":"approve"}`, bearerOf(ann.token)...); got.status != 200 {
			t.Error(got)
		}
		eventually(t, func() error {
			if ran.Load() != 1 {
				return fmt.Errorf("it ran %d times", ran.Load())
			}
			return nil
		})
	})
}
