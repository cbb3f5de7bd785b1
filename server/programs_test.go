package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// programEnv is a server with an administrator, an owner and a third user of one tenant, models with a budget, and two tools.
type programEnv struct {
	*env
	upstream *fakeUpstream
	tokens   map[string]string
}

func newProgramEnv(t *testing.T, db database, budgets string) *programEnv {
	t.Helper()
	p, keys := keyed(t)
	p.open, p.revoke = db.open, true
	p, up := withModels(t, oneUpstream+budgets, p)
	w := &programEnv{newEnvWith(t, saysN(1), p), up, map[string]string{}}
	for name, roles := range map[string][]string{"admin": {"admin"}, "ann": nil, "bob": nil} {
		w.tokens[name] = issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: name, Roles: roles}}, time.Hour)
	}
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"done":true}`)
	}))
	t.Cleanup(tool.Close)
	for name, risk := range map[string]string{"read": "low", "pay": "high"} {
		if got := w.by("admin", "POST", "/v1/tools", fmt.Sprintf(`{"name":%q,"kind":"server_tool","endpoint":%q,"policy":{"risk":%q,"may_edit":true}}`, name, tool.URL, risk)); got.status != 200 {
			t.Fatal(got)
		}
	}
	if err := w.env.tools.Load(t.Context(), nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return w
}

// by makes a request as one of the people, or with the key that is given.
func (w *programEnv) by(who, method, path, body string) answer {
	w.t.Helper()
	token := w.tokens[who]
	if token == "" {
		token = who
	}
	return w.do(method, path, body, "Authorization", "Bearer "+token)
}

// program creates an account and returns its id and key.
func (w *programEnv) program(body string) (id, key string) {
	w.t.Helper()
	var made struct{ ID, Key, User string }
	got := w.by("admin", "POST", "/api/service_accounts", body)
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != 201 {
		w.t.Fatal(got, err)
	}
	return made.ID, made.Key
}

// TestProgramKey: the key of a service account that is bound to an agent calls models and tools for as long as it is good,
// without a run. The calls are the account's own; what needs a person is in the owner's inbox alone.
func TestProgramKey(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		w := newProgramEnv(t, db, "")
		id, key := w.program(`{"name":"reports","agent":"reporter","owner":"ann"}`)
		for range 2 { // a client that is made once calls many times
			if got := w.by(key, "POST", "/v1/chat/completions", callM1); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
		}
		if got := w.by(key, "GET", "/v1/models", ""); got.status != 200 || !strings.Contains(got.body, "m-listed") {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := w.by(key, "GET", "/v1/tools", ""); got.status != 200 || !strings.Contains(got.body, `"pay"`) || strings.Contains(got.body, "endpoint") {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := w.by(key, "POST", "/v1/tools/read:invoke", `{"args":{}}`); !strings.Contains(got.body, `"done":true`) {
			t.Errorf("%d %s", got.status, got.body)
		}

		pending := fields(t, w.by(key, "POST", "/v1/tools/pay:invoke", `{"args":{"to":"bob"}}`))
		call, _ := pending["tool_call_id"].(string)
		if pending["status"] != "pending" || call == "" {
			t.Fatal(pending)
		}
		for who, sees := range map[string]bool{"ann": true, "bob": false, "admin": false} {
			if got := w.by(who, "GET", "/api/approvals", ""); got.status != 200 || strings.Contains(got.body, call) != sees {
				t.Errorf("%s: %d %s", who, got.status, got.body)
			}
		}
		// It decides and answers nothing, its own question least of all.
		for _, r := range [][3]string{
			{"POST", "/api/approvals/" + call + "/decision", `{"decision":"approve"}`}, {"POST", "/api/approvals/decisions", `{"decisions":[]}`}, {"GET", "/api/approvals", ""},
			{"GET", "/api/threads", ""}, {"POST", "/api/agui/chat", inputBody("T", "R", "hi")}, {"POST", "/api/tool_calls/" + call + "/result", `{"result":{}}`}, {"POST", "/api/grants", `{}`},
			{"GET", "/api/tokens", ""}, {"POST", "/api/service_accounts", `{"name":"x","agent":"y"}`}, {"POST", "/v1/agents/scripted:invoke", `{}`}, {"GET", "/v1/agents", ""}, {"GET", "/api/limits", ""},
			{"POST", "/v1/agents/register", `{}`}, {"GET", "/api/audit", ""}, {"GET", "/api/proxies", ""}, {"POST", "/v1/runs", `{}`},
		} {
			if got := w.by(key, r[0], r[1], r[2]); got.status != 401 && got.status != 403 {
				t.Errorf("%s %s: %d %s", r[0], r[1], got.status, got.body)
			}
		}
		if got := w.by("bob", "POST", "/api/approvals/"+call+"/decision", `{"decision":"approve"}`); got.status != 404 {
			t.Errorf("another user: %d %s", got.status, got.body)
		}
		if got := w.by("ann", "POST", "/api/approvals/"+call+"/decision", `{"decision":"approve"}`); got.status != 200 {
			t.Fatal(got.status, got.body)
		}
		if got := w.by(key, "POST", "/v1/tool_calls/"+call+":wait?timeout_ms=20000", "{}"); !strings.Contains(got.body, `"done":true`) {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := w.by(key, "GET", "/v1/tool_calls/"+call, ""); !strings.Contains(got.body, `"succeeded"`) {
			t.Errorf("%d %s", got.status, got.body)
		}

		// A context of its own, and no thread of anybody's.
		kept := fields(t, w.by(key, "POST", "/v1/context", `{"owner_type":"user","content":{"n":1}}`))
		entry, _ := kept["context_key"].(string)
		if got := w.by(key, "GET", "/v1/context/"+entry, ""); got.status != 200 || entry == "" {
			t.Errorf("%d %s: %v", got.status, got.body, kept)
		}
		for _, who := range []string{"ann", "bob", "admin"} {
			if got := w.by(who, "GET", "/api/threads", ""); strings.Contains(got.body, "sessionId") {
				t.Errorf("%s has a thread: %s", who, got.body)
			}
			if got := w.by(who, "GET", "/v1/context/"+entry, ""); got.status != 404 {
				t.Errorf("%s reads its context: %s", who, got.body)
			}
		}

		// Audited by name, and of no use once it is revoked.
		entries, err := w.store.Audit(t.Context(), store.Within("acme"), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, e := range entries {
			found += fmt.Sprintln(e.Actor, e.Action, e.SubjectID, string(e.Payload))
		}
		for _, want := range []string{"admin service_account.created " + id, `"agent":"reporter","owner":"ann"`} {
			if !strings.Contains(found, want) {
				t.Errorf("no %q in the audit:\n%s", want, found)
			}
		}
		silent := make(chan answer, 1) // a call that is under way ends with the key
		go func() { silent <- w.by(key, "POST", "/v1/chat/completions", `{"model":"m-silent","messages":[]}`) }()
		<-w.upstream.came
		if got := w.by("admin", "DELETE", "/api/service_accounts/"+id, ""); got.status != 204 {
			t.Fatal(got)
		}
		if got := <-silent; got.status != 401 {
			t.Errorf("a call under way: %d %s", got.status, got.body)
		}
		for _, path := range []string{"/v1/chat/completions", "/v1/tools/read:invoke"} {
			if got := w.by(key, "POST", path, callM1); got.status != 401 {
				t.Errorf("revoked: %d %s", got.status, got.body)
			}
		}
	})
}

// TestProgramBudget: what a program uses counts for its own user and for its agent; at the limit its owner is asked.
func TestProgramBudget(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		w := newProgramEnv(t, db, "budgets:\n  - {of: user, tokens: 18}\n")
		_, key := w.program(`{"name":"reports","agent":"reporter","owner":"ann"}`)
		_, other := w.program(`{"name":"others","agent":"reporter"}`)
		for _, k := range []string{key, other} { // each has its own
			if got := w.by(k, "POST", "/v1/chat/completions", callM1); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
		}
		done := make(chan answer, 1)
		go func() { done <- w.by(key, "POST", "/v1/chat/completions", callM1) }()
		asks := func() string {
			found := regexp.MustCompile(`"tool_call_id":"([^"]+)"`).FindStringSubmatch(w.by("ann", "GET", "/api/approvals?tool=budget.extend", "").body)
			if found == nil {
				return ""
			}
			return found[1]
		}
		question := ""
		for end := time.Now().Add(20 * time.Second); question == "" && time.Now().Before(end); question = asks() {
			time.Sleep(5 * time.Millisecond)
		}
		if got := w.by("admin", "POST", "/api/approvals/"+question+"/decision", `{"decision":"approve"}`); got.status != 200 { // not the owner: the budget bounds it
			t.Fatal(got.status, got.body)
		}
		if got := <-done; got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// TestProgramAccounts: an account has roles or an agent, and the list shows which.
func TestProgramAccounts(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		w := newProgramEnv(t, db, "")
		for _, body := range []string{
			`{"name":"x"}`, `{"name":"x","roles":[]}`, `{"name":"x","roles":["user"],"agent":"a"}`, `{"name":"x","roles":["user"],"owner":"ann"}`, `{"name":"x","agent":"a\nb"}`,
			`{"name":"x","agent":"a","owner":"a b\u0000"}`,
		} {
			if p := isProblem(t, w.by("admin", "POST", "/api/service_accounts", body), 400); p["code"] != "invalid_body" {
				t.Errorf("%s: %v", body, p)
			}
		}
		w.program(`{"name":"reports","agent":"reporter","ttl_seconds":60}`)
		if got := w.by("admin", "GET", "/api/service_accounts", ""); !strings.Contains(got.body, `"user":"program:reports","roles":[],"agent":"reporter","owner":"admin"`) {
			t.Errorf("%s", got.body)
		}
		// A run token, a user's token and an account with roles do as they did.
		if got := w.by("ann", "POST", "/v1/chat/completions", callM1); got.status != 401 {
			t.Errorf("%d %s", got.status, got.body)
		}
		_, key := w.program(`{"name":"wide","roles":["admin"]}`)
		if got := w.by(key, "POST", "/v1/chat/completions", callM1); got.status != 401 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := w.by(key, "GET", "/v1/tools", ""); got.status != 200 || !strings.Contains(got.body, "endpoint") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}
