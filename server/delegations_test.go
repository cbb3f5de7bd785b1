package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/limit"
)

// delegate gives a standing delegation and returns its id.
func (o *office) delegate(who []string, body string) string {
	o.t.Helper()
	got := o.do("POST", "/api/delegations", body, who...)
	if got.status != http.StatusOK {
		o.t.Fatal(got.status, got.body)
	}
	return fields(o.t.(*testing.T), got)["delegation_id"].(string)
}

// TestDelegation: what its giver may decide, the delegate sees and decides: what is open, what
// comes, live and in the list, as far as the delegation goes and until it is revoked.
func TestDelegation(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "", limit.Limits{})
	alice, bob := o.bearer("alice"), o.bearer("bob")
	early := o.ask("alice")
	feed, page := o.feed(bob, "", ""), o.permissions("/ws/permissions", bob...)
	feed.synced()
	// None of these lets bob see anything.
	o.delegate(alice, `{"to":"bob","tool":"mv"}`)
	o.delegate(alice, `{"to":"bob","kind":"read"}`)
	o.delegate(alice, `{"to":"bob","agent":"another"}`)
	o.delegate(alice, `{"to":"carl"}`)
	o.delegate(o.bearer("dora"), `{"to":"bob"}`)
	if got := o.do("GET", "/api/approvals/"+early, "", bob...); got.status != http.StatusNotFound {
		t.Fatal(got.status, got.body)
	}
	id := o.delegate(alice, `{"to":"bob","tool":"rm","agent":"scripted","ttl_seconds":3600,"note":"away"}`)
	if f := feed.expect("approval_opened", early); f.field("user") != "alice" || !strings.Contains(f.data, `"may_approve":true`) {
		t.Errorf("%+v", f)
	}
	if m := page.next("agent_tool_permission_request"); m.Data.ExecutionID != early {
		t.Error(m.raw)
	}
	late := o.ask("alice")
	feed.expect("approval_opened", late)
	page.next("agent_tool_permission_request")
	if got := o.do("POST", "/api/approvals/"+early+"/decision", `{"decision":"approve"}`, bob...); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	if f := feed.expect("approval_settled", early); f.field("decided_by") != "bob" {
		t.Error(f.data)
	}
	page.next("agent_tool_execution_result")
	if got := o.do("GET", "/api/approvals", "", bob...); !strings.Contains(got.body, late) || strings.Contains(got.body, early) {
		t.Error(got.body)
	}
	for name, who := range map[string][]string{"delegate": bob, "stranger": o.bearer("carl"), "other tenant": o.approver("other")} {
		if got := o.do("DELETE", "/api/delegations/"+id, "", who...); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := o.do("POST", "/api/approvals/"+late+"/delegate", `{"to":"carl"}`, bob...); fields(t, got)["code"] != "not_approver" { // not bob's to pass on
		t.Error(got.status, got.body)
	}
	if got := o.do("DELETE", "/api/delegations/"+id, "", alice...); got.status != http.StatusNoContent {
		t.Fatal(got.status, got.body)
	}
	feed.expect("approval_gone", late)
	if m := page.next("agent_tool_permission_denied"); m.Data.ExecutionID != late || m.Data.Status != "GONE" {
		t.Error(m.raw)
	}
	if got := o.do("POST", "/api/approvals/"+late+"/decision", `{"decision":"approve"}`, bob...); got.status != http.StatusNotFound {
		t.Error(got.status, got.body)
	}
	if got := o.do("DELETE", "/api/delegations/"+id, "", alice...); got.status != http.StatusNotFound {
		t.Error("revoked twice: ", got.status)
	}
	page.respond(late, `"approved":true`)
	if m := page.next("error"); m.Data.Code != "not_found" {
		t.Error(m.raw)
	}
	var list struct {
		Delegations []struct {
			Delegation_id, From, To, Tool, Agent, Note, Revoked_by string
			Created_at, Expires_at                                 time.Time
		}
		Next string
	}
	if err := json.Unmarshal([]byte(o.do("GET", "/api/delegations", "", bob...).body), &list); err != nil || len(list.Delegations) != 5 {
		t.Fatalf("%+v %v", list, err)
	}
	if d := list.Delegations[0]; d.Delegation_id != id || d.From != "alice" || d.To != "bob" || d.Tool != "rm" || d.Agent != "scripted" || d.Note != "away" ||
		d.Revoked_by != "alice" || d.Expires_at.Sub(d.Created_at).Round(time.Second) != time.Hour {
		t.Errorf("%+v", d)
	}
	if err := json.Unmarshal([]byte(o.do("GET", "/api/delegations?limit=2", "", bob...).body), &list); err != nil || len(list.Delegations) != 2 || list.Next == "" {
		t.Errorf("%+v %v", list, err)
	}
	log := o.do("GET", "/api/audit", "", alice...).body
	if strings.Count(log, audit.DelegationCreated) != 5 || strings.Count(log, audit.DelegationRevoked) != 1 {
		t.Error(log)
	}
	if _, err := audit.Verify(t.Context(), o.store); err != nil {
		t.Error(err)
	}
}

// TestDelegationOfApprover: where the policy names who may approve, a delegate of one of those may, and any other user's
// delegate may not.
func TestDelegationOfApprover(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	o.delegate(o.bearer("alice"), `{"to":"carl"}`)
	o.delegate(o.bearer("tess", "treasurer"), `{"to":"dora","until":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	id := o.ask("alice")
	approve := func(user string) answer {
		return o.do("POST", "/api/approvals/"+id+"/decision", `{"decision":"approve"}`, o.bearer(user)...)
	}
	if got := approve("carl"); got.status != http.StatusForbidden || fields(t, got)["code"] != "not_approver" {
		t.Error(got.status, got.body)
	}
	feed := o.feed(o.bearer("carl"), "", "")
	if f := feed.expect("approval_opened", id); !strings.Contains(f.data, `"may_approve":false`) { // carl may reject it
		t.Error(f.data)
	}
	if got := approve("dora"); got.status != http.StatusOK {
		t.Error(got.status, got.body)
	}
}

// TestDelegationRefused: what makes no sense is refused with a code, and nothing is kept.
func TestDelegationRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "", limit.Limits{})
	alice := o.bearer("alice")
	for body, want := range map[string]string{
		`{}`:             "invalid_body",
		`{"to":""}`:      "invalid_body",
		`{"to":"alice"}`: "invalid_answer",
		`{"to":"bob","until":"2001-01-01T00:00:00Z"}`:                  "invalid_answer",
		`{"to":"bob","until":"2999-01-01T00:00:00Z"}`:                  "invalid_answer",
		`{"to":"bob","until":"2999-01-01T00:00:00Z","ttl_seconds":60}`: "invalid_body",
		`{"to":"bob","ttl_seconds":-1}`:                                "invalid_body",
		`{"to":"bob","ttl_seconds":99999999999}`:                       "invalid_body",
		`{"to":7}`:                                                     "invalid_body",
	} {
		got := o.do("POST", "/api/delegations", body, alice...)
		if fields(t, got)["code"] != want {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := o.do("GET", "/api/delegations", "", alice...); got.body != "{\"delegations\":[]}\n" {
		t.Errorf("%q", got.body)
	}
	if got := o.do("POST", "/api/delegations", `{"to":"bob"}`); got.status != http.StatusUnauthorized {
		t.Error(got.status)
	}
}

// TestGrantTemplates: the templates of the policy are listed as they are given.
func TestGrantTemplates(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	want := `{"templates":[{"name":"wood","reason":"For the toolEnv.","ttl_seconds":28800,"grants":[` +
		`{"tool":"cut","kind":"execute","match":{"wood":"oak"},"max_uses":2},{"tool":"saw","match":{"*":true}}]}]}`
	if got := o.do("GET", "/api/grants/templates", "", o.bearer("alice")...); got.status != http.StatusOK || strings.TrimSpace(got.body) != want {
		t.Errorf("%d %s\n%s", got.status, got.body, want)
	}
	none := newOffice(t, "", limit.Limits{})
	if got := none.do("GET", "/api/grants/templates", "", none.bearer("alice")...); strings.TrimSpace(got.body) != `{"templates":[]}` {
		t.Error(got.status, got.body)
	}
	if got := o.do("GET", "/api/grants/templates", ""); got.status != http.StatusUnauthorized {
		t.Error(fmt.Sprint(got.status, got.body))
	}
}
