package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// audited are the entries about proxies, newest first, as "action subject details".
func (h *env) audited(tenant string) []string {
	h.t.Helper()
	rows, err := h.store.Audit(h.t.Context(), store.Within(tenant), 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var list []string
	slices.Reverse(rows)
	for _, e := range rows {
		if strings.HasPrefix(e.Action, "proxy.") || strings.HasPrefix(e.Action, "bootstrap.") {
			list = append(list, fmt.Sprintf("%s %s by %s %s", e.Action, e.SubjectID, e.Actor, e.Payload))
		}
	}
	return list
}

// TestS23ControlTakesNoCommand: what of a body could make the proxy's host run something is refused before the gateway is
// asked, a run_id or instance must be of a thread that the caller may see, and all of it is audited.
func TestS23ControlTakesNoCommand(t *testing.T) {
	t.Parallel()
	h, f, s := steered(t)
	// Another tenant's thread, with an agent on the same proxy.
	foreign := store.Session{ID: "01890000-0000-7000-8000-00000000f0f0", Tenant: "acme", User: "ann", ExternalID: "A", AgentID: "scripted", CreatedAt: time.Now(), UpdatedAt: time.Now()}
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error { return tx.InsertSession(t.Context(), foreign) }); err != nil {
		t.Fatal(err)
	}
	for id, session := range map[string]string{"mine": s.ID, "theirs": foreign.ID} {
		if err := acpgateway.NewRegistry(h.store).SaveInstance(t.Context(), store.SandboxInstance{SessionID: session, ProxyID: "p1", InstanceName: id}); err != nil {
			t.Fatal(err)
		}
	}
	push := func(more string) string {
		return `{"action":"git_push","run_id":"` + s.ID + `","branch":"b"` + more + `}`
	}
	for _, c := range []struct {
		body   string
		status int
	}{
		{push(`,"env":{"GIT_SSH_COMMAND":"touch /tmp/x"}`), 400}, {push(`,"env":{"GIT_ALLOW_PROTOCOL":"ext"},"remote":"ext::sh -c touch%20/tmp/x"`), 400},
		{push(`,"env":{}`), 400}, {push(`,"remote":"ext::sh -c touch% /tmp/x"`), 400}, {push(`,"remote":"https://evil.example/x"`), 400},
		{push(`,"remote":"/tmp/far"`), 400}, {push(`,"remote":"../far"`), 400}, {push(`,"remote":"--receive-pack=sh"`), 400},
		{`{"action":"git_push","branch":"--mirror","thread_id":"T"}`, 400}, {`{"action":"git_push","branch":"b:c","thread_id":"T"}`, 400},
		{`{"action":"git_push","branch":"b"}`, 400}, {`{"action":"ensure_running"}`, 400},
		{`{"action":"git_push","branch":"b","run_id":"` + foreign.ID + `"}`, 404}, {`{"action":"git_push","branch":"b","instance_name":"theirs"}`, 404},
		{`{"action":"stop","run_id":"` + foreign.ID + `"}`, 404}, {`{"action":"remove","instance_name":"theirs"}`, 404},
		{`{"action":"stop","thread_id":"A"}`, 404}, {`{"action":"ensure_running","instance_name":"nobody's"}`, 404},
		{`{"action":"inspect","run_id":"\u0000"}`, 404},
	} {
		got := h.do("POST", "/api/proxies/p1/control", c.body)
		if got.status != c.status || len(f.asked) != 0 {
			t.Errorf("%s: %d %s, asked %v", c.body, got.status, got.body, f.asked)
		}
		list := h.audited("local")
		if len(list) == 0 || !strings.HasPrefix(list[0], "proxy.refused p1 by local ") || !strings.Contains(list[0], "127.0.0.1") || strings.Contains(list[0], "SSH_COMMAND") {
			t.Fatalf("%s: the audit has %v", c.body, list)
		}
	}
	for _, body := range []string{`{"action":"stop","instance_name":"mine"}`, `{"action":"remove","instance_name":"nobody's"}`, push(`,"remote":"origin","cwd":"sub"`)} {
		if got := h.do("POST", "/api/proxies/p1/control", body); got.status != 200 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		if asked := f.last(); strings.Contains(body, "mine") && !strings.Contains(asked, "SessionID:"+s.ID) {
			t.Error(asked)
		}
		if list := h.audited("local"); !strings.HasPrefix(list[0], "proxy.controlled p1 by local ") {
			t.Errorf("%s: the audit has %v", body, list)
		}
	}
	h.do("POST", "/api/proxies/p1/prune", `{}`)
	h.do("DELETE", "/api/proxies/p1", "")
	if list := h.audited("local"); !strings.HasPrefix(list[0], "proxy.removed p1") || !strings.Contains(list[1], `"prune"`) {
		t.Error(list[:2])
	}
}

// TestS23NoTenantOperates: no token of a tenant has the role of the installation, whatever it was issued with; its attempts
// are audited.
func TestS23NoTenantOperates(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	p.control = &fakeControl{}
	h := newEnvWith(t, saysN(1), p)
	if _, err := keys.Issue(auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{"operator"}}}, time.Hour); err == nil {
		t.Error("a token of a tenant was issued with the role operator")
	}
	token := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{"admin", "approver"}}}, time.Hour)
	for _, c := range [][3]string{
		{"POST", "/api/proxies/p1/control", `{"action":"stop"}`}, {"POST", "/api/proxies/p1/prune", `{}`}, {"DELETE", "/api/proxies/p1", ""},
		{"GET", "/api/proxies", ""}, {"GET", "/api/proxies/p1", ""}, {"GET", "/api/proxies/p1/inventory", ""},
	} {
		got := h.do(c[0], c[1], c[2], "Authorization", "Bearer "+token)
		var problem struct{ Code string }
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil || got.status != 403 || problem.Code != "not_operator" {
			t.Errorf("%v: %d %s", c, got.status, got.body)
		}
	}
	if list := h.audited("acme"); len(list) != 3 || !strings.HasPrefix(list[0], "proxy.refused p1 by ann ") || !strings.Contains(list[0], `"not_operator"`) {
		t.Error(list)
	}
	if asked := p.control.(*fakeControl).asked; len(asked) != 0 {
		t.Error(asked)
	}
}

// TestS21RunTokenDecidesNothing: an agent that shows its token, in whatever place, does not decide about itself, even where
// no token is required; its question stays open.
func TestS21RunTokenDecidesNothing(t *testing.T) {
	t.Parallel()
	asks := func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
		if len(answers) == 0 {
			say(permission("q1"))
		}
	}
	for name, p := range map[string]plan{"none": {}, "token": {auth: static(t)}} {
		h := newEnvWith(t, asks, p)
		if got := h.do("POST", "/api/agui/chat", inputBody("T", "R", "go"), "Authorization", "Bearer "+goodToken); got.status != 200 {
			t.Fatal(got.body)
		}
		path, token := "/api/approvals/"+h.question()+"/decision", h.agent.last().RunToken
		for place, try := range map[string]func() answer{
			"Authorization":      func() answer { return h.do("POST", path, `{"approved":true}`, "Authorization", "Bearer "+token) },
			"without the scheme": func() answer { return h.do("POST", path, `{"approved":true}`, "Authorization", token) },
			"cookie":             func() answer { return h.do("POST", path, `{"approved":true}`, "Cookie", "aqueduct_session="+token) },
			"query":              func() answer { return h.do("POST", path+"?token="+token, `{"approved":true}`) },
			"ticket":             func() answer { return h.do("POST", path+"?ticket="+token, `{"approved":true}`) },
			"two tickets":        func() answer { return h.do("POST", path+"?ticket=x&ticket="+token, `{"approved":true}`) },
			"the page's secret":  func() answer { return h.do("POST", path, `{"approved":true}`, auth.PageHeader, token) },
			"another header":     func() answer { return h.do("POST", path, `{"approved":true}`, "X-Aqueduct-Run-Token", token) },
			"session":            func() answer { return h.do("POST", "/api/session", `{"token":"`+token+`"}`) },
		} {
			if got := try(); got.status != 401 && !(place == "session" && name == "none" && got.status < 300) {
				t.Errorf("%s, %s: %d %s", name, place, got.status, got.body)
			}
		}
	}
}
