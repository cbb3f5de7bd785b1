package server_test

import (
	"net/http"
	"strings"
	"testing"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// TestS35AuditRefusedAttempts: what was refused for who asked stands in the audit, with the address it came from, and so
// do signing in and out.
func TestS35AuditRefusedAttempts(t *testing.T) {
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, nil, plan{auth: auth.Typed(keys)})
	token := func(user string, roles ...string) string {
		c := auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: roles}}
		text, err := keys.Issue(c, 1e12)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ada := token("ada")
	var cookie, page string
	call := func(method, path, bearer, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		} else if cookie != "" {
			req.Header.Set("Cookie", cookie)
			req.Header.Set(auth.PageHeader, page)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if c := resp.Cookies(); len(c) > 0 {
			cookie, page = c[0].Name+"="+c[0].Value, resp.Header.Get(auth.PageHeader)
		}
		return resp.StatusCode
	}
	const nobodys = "/api/approvals/0197a000-0000-7000-8000-000000000000/decision"
	for _, c := range []struct {
		method, path, bearer, body string
		want                       int
	}{
		{"GET", "/api/threads", "", "", 401},
		{"GET", "/api/threads", "not.a.token", "", 401},
		{"POST", "/api/session", "", `{"token":"wrong-wrong-wrong-wrong"}`, 401},
		{"POST", "/api/session", "", `{"token":"` + ada + `"}`, 204},
		{"DELETE", "/api/session", "", "", 204},
		{"POST", "/v1/tools", ada, `{"name":"x","kind":"server_tool","endpoint":"http://x"}`, 403},
		{"DELETE", "/api/proxies/p1", ada, "", 403},
		{"POST", nobodys, ada, `{"decision":"approve"}`, 404},
	} {
		if got := call(c.method, c.path, c.bearer, c.body); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.want)
		}
	}
	rows, err := h.store.Audit(t.Context(), store.System(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range rows {
		if e.Remote != "127.0.0.1" || strings.Contains(string(e.Payload), ada) {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Action+" "+e.Actor+" "+e.SubjectID)
	}
	want := []string{
		"access.refused unknown GET /api/threads", "session.refused unknown POST /api/session", "session.started ada ada", "session.ended ada ada",
		"access.refused ada POST /v1/tools", "proxy.refused ada p1", "approval.refused ada 0197a000-0000-7000-8000-000000000000",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
