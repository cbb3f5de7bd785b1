package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// mayCall lists for every route which roles open it: u user, p approver, a auditor, m admin, o operator. "" is a route that asks
// for no role: it is public, or checks a credential of its own.
var mayCall = map[string]string{
	"GET /": "", "GET /openapi.json": "", "GET /healthz": "", "GET /readyz": "", "POST /api/session": "",
	"GET /decide/:token": "", "POST /decide/:token": "", "GET /ws/ingress": "", "POST /v1/ingress": "", "GET /ws/agent": "",
	"GET /api/session": "", "GET /api/session/oidc/login": "", "GET /api/session/oidc/callback": "", "POST /api/session/oidc/logout": "",
	"POST /v1/agents/:id": "", "POST /v1/tools/:call": "", "POST /v1/tool_calls/:id": "", "POST /api/admin/acp-proxy/register": "",

	"GET /api/threads/:id/shares":           "u",
	"POST /api/threads/:id/shares":          "u",
	"DELETE /api/threads/:id/shares/:share": "u",
	"GET /metrics":                          "o", "GET /api/limits": "upamgo", "DELETE /api/session": "upamgo", "GET /api/agui/capabilities": "upamgo", "GET /v1/tools": "upamgo",
	"POST /api/tickets": "upamgo", "GET /api/tokens": "upamgo", "POST /api/tokens": "m", "DELETE /api/tokens": "upamgo", "DELETE /api/tokens/:jti": "upamgo",
	"GET /api/service_accounts": "am", "POST /api/service_accounts": "m", "DELETE /api/service_accounts/:id": "m",

	"POST /api/agui/chat": "u", "POST /api/agui/connect": "u", "GET /api/threads": "u", "GET /api/threads/:id": "u", "PATCH /api/threads/:id": "u",
	"DELETE /api/threads/:id": "u", "GET /api/threads/:id/messages": "u", "GET /api/threads/:id/parts/:sha256": "u", "GET /api/threads/:id/events": "u",
	"GET /api/threads/:id/control": "u", "POST /api/threads/:id/control": "u", "GET /api/runs/:id": "u", "GET /api/runs/:id/events": "u",
	"POST /api/runs/:id/cancel": "u", "POST /api/tool_calls/:id/result": "u", "GET /v1/tool_calls/:id": "u",
	"POST /api/attachments": "u", "POST /v1/context": "u", "GET /v1/context": "u", "GET /v1/context/:key": "u", "PUT /v1/context/:key": "u", "DELETE /v1/context/:key": "u",
	"GET /v1/sessions/:id/messages": "u", "POST /v1/sessions/:id/messages": "u",
	"POST /v1/runs": "u", "GET /v1/runs/:id": "u", "GET /v1/runs/:id/events": "ua", "GET /v1/sessions/:id/events": "ua", "GET /api/audit": "upam",

	"GET /api/approvals": "upam", "GET /api/approvals/:id": "upam", "POST /api/approvals/:id/decision": "up", "POST /api/approvals/decisions": "up",
	"POST /api/approvals/:id/delegate": "up", "POST /api/approvals/:id/revoke": "up", "GET /api/grants": "upam", "POST /api/grants": "upm",
	"DELETE /api/grants/:id": "upm", "GET /api/grants/templates": "upam", "GET /api/delegations": "upam", "POST /api/delegations": "up",
	"DELETE /api/delegations/:id": "up", "GET /ws/permissions/:session_id": "up", "GET /agent_backend/ws/:session_id": "up", "GET /ws/permissions": "up",
	"GET /agent_backend/ws": "up", "GET /ws/client": "uo",

	"GET /v1/runs/:id/tree": "ua", "GET /v1/agents": "upamgo", "GET /v1/agents/:id": "upamgo", "POST /v1/agents/register": "gm", "POST /v1/agents/:id/heartbeat": "gm", "DELETE /v1/agents/:id": "gm",
	"POST /mcp": "u", "POST /v1/chat/completions": "", "POST /v1/embeddings": "", "POST /v1/responses": "", "GET /v1/models": "",
	"POST /v1/tools": "m", "DELETE /v1/tools/:name": "m", "GET /api/proxies": "o", "GET /api/proxies/:id": "o", "DELETE /api/proxies/:id": "o",
	"GET /api/proxies/:id/inventory": "o", "POST /api/proxies/:id/prune": "o", "POST /api/proxies/:id/control": "o",
}

// roleCodes are those of a caller who is known and lacks a role.
var roleCodes = []string{`"role_required"`, `"not_admin"`, `"not_operator"`}

// saidRoles are ways to claim a role, none of which is listened to.
var saidRoles = []string{"X-Role", "admin", "X-Roles", "admin,operator", "X-Scope", "*", "X-User", "local", "X-Tenant", "local", "X-Forwarded-User", "root"}

// organisation is a server with one caller of each role and no other role, by the letters of mayCall.
func organisation(t *testing.T, script script) (h *env, keys *auth.Keys, callers map[string]string) {
	t.Helper()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h = newEnvWith(t, script, plan{auth: static(t).WithKeys(keys), revoke: true})
	callers = map[string]string{"o": issue(t, keys, auth.Claims{Type: auth.TypeOperator, UserClaims: auth.UserClaims{User: "ops"}}, time.Hour)}
	for letter, role := range map[string]string{"u": auth.RoleUser, "p": auth.RoleApprover, "a": auth.RoleAuditor, "m": auth.RoleAdmin, "g": auth.RoleAgent} {
		callers[letter] = h.account(goodToken, role, role).Key
	}
	return h, keys, callers
}

// madeAccount is the answer to the creation of a service account.
type madeAccount struct {
	status          int
	body            string
	ID, Key, User   string
	Roles           []string
	Code            string
	ExpiresAt, Last time.Time
}

func (h *env) account(by, name string, roles ...string) (got madeAccount) {
	h.t.Helper()
	body, _ := json.Marshal(map[string]any{"name": name, "roles": roles})
	a := h.do("POST", "/api/service_accounts", string(body), bearerOf(by)...)
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		h.t.Fatal(a)
	}
	got.status, got.body = a.status, a.body
	return got
}

// TestS12RolesOfRoutes: every route there is, called with every role, alone; a role that a request claims for itself is none.
func TestS12RolesOfRoutes(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	calls := 0
	for _, route := range h.server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		roles, known := mayCall[route]
		if !known {
			if method != "GET" || !strings.Contains(path, ".") { // a file of the page
				t.Errorf("%s: nobody says who may call it", route)
			}
			continue
		}
		if roles == "" {
			continue
		}
		var segments []string
		for _, s := range strings.Split(path, "/") {
			if strings.HasPrefix(s, ":") {
				s = "none"
			}
			segments = append(segments, s)
		}
		url, body := strings.Join(segments, "/"), ""
		if method != "GET" && method != "DELETE" {
			body = `{"roles":["admin"],"role":"operator","forwardedProps":{"role":"admin","roles":["operator"]}}`
		}
		for letter, token := range callers {
			a := h.do(method, url, body, append(bearerOf(token), saidRoles...)...)
			refused := a.status == http.StatusForbidden && slices.ContainsFunc(roleCodes, func(code string) bool { return strings.Contains(a.body, code) })
			if may := strings.Contains(roles, letter); may == refused || a.status == http.StatusUnauthorized {
				t.Errorf("%s with the role %s: %d %s", route, letter, a.status, a.body)
			}
			calls++
		}
		if a := h.do(method, url, body, saidRoles...); a.status != http.StatusUnauthorized {
			t.Errorf("%s without a credential: %d", route, a.status)
		}
	}
	t.Logf("%d routes that ask for a role, each called with %d roles and without", calls/len(callers), len(callers))
	if code := h.hello("", callers["a"]); code != "role_required" {
		t.Errorf("an auditor on /ws/ingress: %q", code)
	}
	if code := h.hello("", callers["u"]); code != "" {
		t.Errorf("a user on /ws/ingress: %q", code)
	}
}

// TestS12AuditorReadsAndDecidesNothing: the tenant's traces, audit and questions, no other tenant's, and no decision.
func TestS12AuditorReadsAndDecidesNothing(t *testing.T) {
	t.Parallel()
	h, keys, callers := organisation(t, asks)
	person := func(tenant, user string, roles ...string) string {
		return issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: tenant, UserClaims: auth.UserClaims{User: user, Roles: roles}}, time.Hour)
	}
	ada := person("local", "ada")
	h.open(h.requests("R1", "T", ada)).rest()
	asked := h.approvalOf("T", ada)
	for tenant, c := range map[string]struct {
		token  string
		status int
	}{"its own": {callers["a"], 200}, "another": {person("other", "eve", auth.RoleAuditor), 404}} {
		for _, path := range []string{"/v1/runs/R1/events", "/v1/sessions/T/events", "/api/approvals/" + asked} {
			if a := h.do("GET", path, "", bearerOf(c.token)...); a.status != c.status {
				t.Errorf("%s tenant: %s: %d %s", tenant, path, a.status, a.body)
			}
		}
	}
	if a := h.do("GET", "/api/approvals", "", bearerOf(callers["a"])...); !strings.Contains(a.body, asked) {
		t.Errorf("the list: %s", a.body)
	}
	// A person who is an auditor as well as a user reads, and decides as a user alone.
	for who, token := range map[string]string{"alone": callers["a"], "a user too": person("local", "uma", auth.RoleAuditor, auth.RoleUser)} {
		if a := h.do("POST", "/api/approvals/"+asked+"/decision", `{"approved":true}`, bearerOf(token)...); a.status != 403 && a.status != 404 {
			t.Errorf("%s decides: %d %s", who, a.status, a.body)
		}
	}
	if !h.pending(asked) {
		t.Error("an auditor decided")
	}
	// The role operator in a tenant's token is none: such a token is refused whole.
	if _, err := keys.Issue(auth.Claims{Type: auth.TypeUser, Tenant: "local", UserClaims: auth.UserClaims{User: "x", Roles: []string{auth.RoleOperator}}}, time.Hour); err == nil {
		t.Error("a tenant's token with the role operator was issued")
	}
}

// TestS13NothingWiderThanItsCreator: API keys and tokens have no role that who creates them does not have, nor another tenant.
func TestS13NothingWiderThanItsCreator(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	for name, c := range map[string]struct {
		by     string
		roles  []string
		status int
		code   string
	}{
		"its own role":            {callers["m"], []string{auth.RoleAdmin}, 201, ""},
		"another's":               {callers["m"], []string{auth.RoleAdmin, auth.RoleApprover}, 403, "wider_than_own"},
		"one of a policy":         {callers["m"], []string{"dev"}, 403, "wider_than_own"},
		"in other letters":        {callers["m"], []string{"Approver"}, 403, "wider_than_own"},
		"operator, by an admin":   {callers["m"], []string{auth.RoleOperator}, 403, "wider_than_own"},
		"operator, by all roles":  {goodToken, []string{auth.RoleOperator}, 403, "wider_than_own"},
		"none":                    {callers["m"], nil, 400, "invalid_body"},
		"by a user":               {callers["u"], []string{auth.RoleUser}, 403, "not_admin"},
		"by an auditor":           {callers["a"], []string{auth.RoleAuditor}, 403, "not_admin"},
		"by an operator":          {callers["o"], []string{auth.RoleOperator}, 403, "not_admin"},
		"all that the static has": {goodToken, []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin}, 201, ""},
	} {
		if got := h.account(c.by, "x", c.roles...); got.status != c.status || got.Code != c.code || (got.Key != "") != (c.status == 201) {
			t.Errorf("a key, %s: %d %s", name, got.status, got.body)
		}
	}
	for name, c := range map[string]struct {
		by, body string
		status   int
		code     string
	}{
		"a user by an admin alone":     {callers["m"], `{"type":"user","user":"ada"}`, 403, "wider_than_own"},
		"an approver by an admin":      {callers["m"], `{"type":"approver","user":"ada"}`, 403, "wider_than_own"},
		"a channel by an admin alone":  {callers["m"], `{"type":"channel","channel":"im"}`, 403, "wider_than_own"},
		"an operator":                  {goodToken, `{"type":"operator","user":"ops"}`, 400, "invalid_body"},
		"the role operator":            {goodToken, `{"type":"user","user":"ada","roles":["operator"]}`, 403, "wider_than_own"},
		"a proxy":                      {goodToken, `{"type":"acp_proxy","user":"p"}`, 400, "invalid_body"},
		"a name of ours":               {goodToken, `{"type":"user","user":"system"}`, 400, "invalid_body"},
		"a service account's name":     {goodToken, `{"type":"user","user":"service:x"}`, 400, "invalid_body"},
		"too long":                     {goodToken, `{"type":"user","user":"ada","ttl_seconds":7776001}`, 400, "90 days"},
		"as long as may be":            {goodToken, `{"type":"user","user":"ada","ttl_seconds":7776000}`, 201, ""},
		"a user by who has everything": {goodToken, `{"type":"user","user":"ada","tenant":"other"}`, 201, ""},
	} {
		a := h.do("POST", "/api/tokens", c.body, bearerOf(c.by)...)
		if a.status != c.status || !strings.Contains(a.body, c.code) {
			t.Errorf("a token, %s: %d %s", name, a.status, a.body)
		}
		if a.status != 201 {
			continue
		}
		var made struct{ Token, JTI string }
		_ = json.Unmarshal([]byte(a.body), &made)
		kept, err := h.store.Credential(t.Context(), store.System(), made.JTI)
		if err != nil || kept.Tenant != "local" || h.do("GET", "/api/threads", "", bearerOf(made.Token)...).status != 200 {
			t.Errorf("%s: %+v %v", name, kept, err)
		}
	}
}

// TestServiceAccount: its key is shown once and kept as a hash, is listed with its last use, acts for itself, and ends when it
// is revoked.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	made := h.account(goodToken, "ci", auth.RoleUser)
	if made.status != 201 || !strings.HasPrefix(made.Key, "aqk_") || made.User != "service:ci" {
		t.Fatal(made.body)
	}
	if frames := h.open(h.requests("R1", "T", made.Key)).rest(); len(frames) == 0 {
		t.Error("it does not chat")
	}
	if a := h.do("GET", "/api/threads/T", "", bearerOf(callers["u"])...); a.status != 404 {
		t.Errorf("another account sees its thread: %+v", a)
	}
	kept, err := h.store.Credential(t.Context(), store.System(), made.ID)
	_, secret, _ := strings.Cut(strings.TrimPrefix(made.Key, "aqk_"), "_")
	if err != nil || len(kept.Hash) != 64 || kept.Hash == secret || kept.CreatedBy != "local" {
		t.Errorf("%+v %v", kept, err)
	}
	list := h.do("GET", "/api/service_accounts", "", bearerOf(callers["m"])...)
	if list.status != 200 || !strings.Contains(list.body, made.ID) || strings.Contains(list.body, secret) || strings.Contains(list.body, kept.Hash) {
		t.Errorf("%+v", list)
	}
	for kept.LastUsedAt.IsZero() && t.Context().Err() == nil {
		if kept, err = h.store.Credential(t.Context(), store.System(), made.ID); err != nil {
			t.Fatal(err)
		}
	}
	for name, bad := range map[string]string{
		"another secret": "aqk_" + made.ID + "_" + strings.Repeat("0", 64), "another id": strings.Replace(made.Key, made.ID, "01890000-0000-7000-8000-000000000000", 1),
		"its id alone": "aqk_" + made.ID, "no id": "aqk__" + secret, "the hash": "aqk_" + made.ID + "_" + kept.Hash, "longer": made.Key + "0",
		"a session's id": "aqk_" + strings.Repeat("x", 36) + "_" + secret,
	} {
		if a := h.do("GET", "/api/threads", "", bearerOf(bad)...); a.status != 401 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := h.do("DELETE", "/api/service_accounts/"+made.ID, "", bearerOf(callers["m"])...); a.status != 204 {
		t.Fatal(a)
	}
	if a := h.do("GET", "/api/threads", "", bearerOf(made.Key)...); a.status != 401 {
		t.Errorf("revoked: %+v", a)
	}
	if a := h.do("GET", "/api/audit?limit=1000", "", bearerOf(callers["a"])...); !strings.Contains(a.body, "service_account.created") || strings.Contains(a.body, secret) {
		t.Errorf("%s", a.body)
	}
}

// accessCases are the refusals of those who lack a role.
func accessCases(t *testing.T, cases map[string]func() answer) {
	h, _, callers := organisation(t, saysN(1))
	cases["role_required"] = func() answer {
		return h.do("POST", "/api/approvals/x/decision", `{"approved":true}`, bearerOf(callers["a"])...)
	}
	cases["agent_id_taken"] = func() answer {
		return h.do("POST", "/v1/agents/register", `{"agent_id":"scripted","endpoint":"http://127.0.0.1:1"}`, bearerOf(callers["g"])...)
	}
	cases["too_many_agents"] = func() answer {
		d := newDirectory(t, nil)
		for i := range 100 {
			if got := d.registers("planner", fmt.Sprint("p", i), "http://127.0.0.1:1", ""); got.status != http.StatusOK {
				t.Fatal(i, got)
			}
		}
		return d.registers("planner", "one-more", "http://127.0.0.1:1", "")
	}
	cases["wider_than_own"] = func() answer {
		return h.do("POST", "/api/service_accounts", `{"name":"x","roles":["approver"]}`, bearerOf(callers["m"])...)
	}
}
