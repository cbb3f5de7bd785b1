package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// TestS49EditGoesToASecondPerson: who changes the arguments of a call that needs four eyes asks for the new ones, and somebody else
// has to approve these: neither who prompted nor who changed them, by the same arguments. So on every surface that takes changes,
// and also where only the new arguments need four eyes.
func TestS49EditGoesToASecondPerson(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{
		"of the call":          "rules:\n  - {name: r, tool: cut, verdict: ask, four_eyes: true, may_edit: true}\n",
		"of the new arguments": "rules:\n  - {name: big, tool: cut, verdict: ask, four_eyes: true, may_edit: true, when: 'args.wood == \"ash\"'}\n  - {name: r, tool: cut, verdict: ask, may_edit: true}\n",
	} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, db database) { editedByOne(t, db, rules) })
		})
	}
}

func editedByOne(t *testing.T, db database, rules string) {
	p, keys := keyed(t)
	p.open, p.rules = db.open, rules
	h := newEnvWith(t, saysN(1), p)
	var ran atomic.Value
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ran.Store(string(body))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok":true}`)
	}))
	t.Cleanup(tool.Close)
	token := func(user string, roles ...string) string {
		return issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: append(roles, auth.RoleUser)}}, time.Hour)
	}
	ann, bob, carol := token("ann", auth.RoleAdmin, auth.RoleApprover), token("bob", auth.RoleApprover), token("carol", auth.RoleApprover)
	if got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":{"risk":"high"},"schema":{"type":"object"}}`, tool.URL), bearerOf(ann)...); got.status != 200 {
		t.Fatal(got)
	}
	mcpOf{h, ann}.calls(`{"wood":"oak"}`, "")
	id := h.question()
	decide := func(by, body string) (status int, code any) {
		t.Helper()
		got := h.do("POST", "/api/approvals/"+id+"/decision", body, bearerOf(by)...)
		return got.status, fields(t, got)["code"]
	}
	const ash, elm = `{"decision":"approve","edited_args":{"wood":"ash"}}`, `{"decision":"approve","edited_args":{"wood":"elm"}}`
	open := func(after string) map[string]any {
		t.Helper()
		got := h.do("GET", "/api/approvals/"+id, "", bearerOf(carol)...)
		if a := fields(t, got); a["status"] == "PENDING" && ran.Load() == nil {
			return a
		}
		t.Fatalf("%s: %s, ran %v", after, got.body, ran.Load())
		return nil
	}
	if status, code := decide(ann, ash); status != 403 || code != "four_eyes" {
		t.Errorf("who prompted: %d %v", status, code)
	}
	if a := open("who prompted"); a["proposed_by"] != nil {
		t.Errorf("who prompted has proposed: %v", a)
	}
	for range 2 { // again makes no second person
		if status, code := decide(bob, ash); status != 403 || code != "four_eyes" {
			t.Fatalf("the first: %d %v", status, code)
		}
	}
	if a := open("the first"); a["proposed_by"] != "bob" || fmt.Sprint(a["proposed_args"]) != "map[wood:ash]" {
		t.Errorf("proposed: %v", a)
	}
	// Every other surface by which bob could take his own change for approved.
	for surface, body := range map[string]string{
		"/api/approvals/decisions": `{"decisions":[{"approval_id":"` + id + `","decision":"approve","edited_args":{"wood":"ash"}}]}`,
		"/api/agui/chat":           `{"threadId":"mcp","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"` + id + `","status":"resolved","payload":{"approved":true,"editedArgs":{"wood":"ash"}}}]}`,
	} {
		h.do("POST", surface, body, bearerOf(bob)...)
		open(surface)
	}
	if strings.Contains(rules, "name: big") {
		// Another change needs no second person, by the rule for it.
		if status, _ := decide(bob, elm); status != 200 {
			t.Errorf("a change that needs one person: %d", status)
		}
		return
	}
	if status, code := decide(carol, elm); status != 403 || code != "four_eyes" {
		t.Errorf("another change: %d %v", status, code)
	}
	if a := open("another change"); a["proposed_by"] != "carol" {
		t.Errorf("proposed: %v", a)
	}
	if status, code := decide(bob, ash); status != 403 || code != "four_eyes" {
		t.Errorf("a change that another replaced: %d %v", status, code)
	}
	if status, code := decide(carol, ash); status != 200 {
		t.Fatalf("the second person: %d %v", status, code)
	}
	eventually(t, func() error {
		if body, _ := ran.Load().(string); !strings.Contains(body, `"ash"`) {
			return fmt.Errorf("it ran with %q", body)
		}
		return nil
	})
	a := h.status(id)
	if a.Status != store.ApprovalApproved || a.DecidedBy != "carol" || a.ProposedBy != "bob" {
		t.Errorf("%+v", a)
	}
	var audit struct{ Entries []struct{ Action string } }
	if err := json.Unmarshal([]byte(h.do("GET", "/api/audit?limit=100", "", bearerOf(ann)...).body), &audit); err != nil || !strings.Contains(fmt.Sprint(audit), "approval.edit_proposed") {
		t.Errorf("the audit: %v %v", audit, err)
	}
}
