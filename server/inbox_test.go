package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// asking is a toolEnv whose agent waits for a call that needs an approval.
func asking(t *testing.T, policy string) (w *toolEnv, id string) {
	t.Helper()
	w = newToolEnv(t, policy, func(w *toolEnv, c bridge.Call) string {
		return brief(w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`)))
	})
	w.chat("T", "R", "go")
	return w, w.question()
}

// TestInboxFourEyes: the user who prompted may not approve, every other user who sees the question may; any of them may
// reject.
func TestInboxFourEyes(t *testing.T) {
	t.Parallel()
	w, id := asking(t, `{"risk":"high","verdict":"require_approval","four_eyes":true}`)
	if got := w.decide(id, `{"decision":"approve"}`); got.status != http.StatusForbidden || fields(t, got)["code"] != "four_eyes" {
		t.Fatal(got.status, got.body)
	}
	if n := len(w.questions()); n != 1 {
		t.Fatalf("%d are open", n)
	}
	if got := w.decide(id, `{"decision":"reject","reason":"Not this tree."}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	if got := <-w.said; got != "failed rejected" {
		t.Error(got)
	}
}

// TestInboxEditedArguments: what was edited runs, under a hash of its own; what the tool does
// not take, or the question does not allow, leaves it open.
func TestInboxEditedArguments(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if got := w.decide(id, `{"decision":"approve","edited_args":{"wood":7}}`); got.status != http.StatusUnprocessableEntity {
		t.Fatal(got.status, got.body)
	}
	got := fields(t, w.decide(id, `{"decision":"approve","edited_args":{"wood":"ash"}}`))
	if got["status"] != "APPROVED" || fmt.Sprint(got["edited_args"]) != "map[wood:ash]" {
		t.Fatal(got)
	}
	for more, want := range map[string]string{`,"edited_args":{"wood":"ash"}`: "repeated", `,"edited_args":{"wood":"elm"}`: "already_decided", "": "already_decided"} {
		got := fields(t, w.decide(id, `{"decision":"approve"`+more+`}`))
		if repeated, _ := got["repeated"].(bool); repeated != (want == "repeated") || !repeated && got["code"] != want {
			t.Errorf("approved once more%s: %v, want %s", more, got, want)
		}
	}
	if got := <-w.said; got != `succeeded {"cut":{"wood":"ash"}}` {
		t.Error(got)
	}
	call, err := w.store.ToolCall(t.Context(), store.System(), id)
	if err != nil || !call.Edited || call.ArgsSHA256 == got["args_sha256"] {
		t.Errorf("%+v %v", call, err)
	}
	fixed, other := asking(t, `{"risk":"high"}`)
	if got := fixed.decide(other, `{"decision":"approve","edited_args":{"wood":"ash"}}`); fields(t, got)["code"] != "edit_not_allowed" {
		t.Error(got.status, got.body)
	}
}

// TestRepeatedCallOfEditedArguments: an agent that repeats a call by its key, because its connection broke or its server
// restarted, sends the arguments that it sent before. The call is the same, although a person has edited them.
func TestRepeatedCallOfEditedArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"wood":"oak"}`: `succeeded {"cut":{"wood":"ash"}}`,
		`{"wood":"ash"}`: `succeeded {"cut":{"wood":"ash"}}`, // it has read what ran
		`{"wood":"elm"}`: "failed idempotency_key_conflict",
	} {
		keyed := func(w *toolEnv, c bridge.Call, args string) map[string]any {
			return w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":%s,"idempotency_key":"k"}`, c.TurnID, args))
		}
		w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
			first := brief(w.settled(c, keyed(w, c, `{"wood":"oak"}`)))
			return first + " / " + brief(w.settled(c, keyed(w, c, args)))
		})
		w.chat("T", "R", "go")
		fields(t, w.decide(w.question(), `{"decision":"approve","edited_args":{"wood":"ash"}}`))
		if got := <-w.said; got != `succeeded {"cut":{"wood":"ash"}} / `+want {
			t.Errorf("repeated with %s: %s, want %s", args, got, want)
		}
	}
}

// TestDecisionIsJudgedAgain: what the policy has come to block since it was asked cannot be approved, only rejected.
func TestDecisionIsJudgedAgain(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if err := w.rules.Replace([]byte("rules: [{name: no-cutting, tool: cut, verdict: block, reason: Not here.}]")); err != nil {
		t.Fatal(err)
	}
	if got := w.decide(id, `{"decision":"approve"}`); got.status != http.StatusForbidden || fields(t, got)["code"] != "policy_blocks" || !strings.Contains(got.body, "Not here.") {
		t.Fatal(got.status, got.body)
	}
	if got := w.decide(id, `{"decision":"reject"}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	if got := <-w.said; got != "failed rejected" {
		t.Error(got)
	}
	h := newEnvWith(t, asks, plan{rules: "tools: {x: low}"})
	h.chat("T", "R", "hi")
	q := h.question()
	if err := h.rules.Replace([]byte(`rules: [{name: nothing, tool: "*", verdict: block}]`)); err != nil {
		t.Fatal(err)
	}
	if got := h.decide(q, `{"decision":"approve"}`); got.status != http.StatusForbidden || fields(t, got)["code"] != "policy_blocks" {
		t.Error(got.status, got.body)
	}
}

// TestInboxBatch: each decision stands for itself, one that cannot be read too.
func TestInboxBatch(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	got := w.do("POST", "/api/approvals/decisions", fmt.Sprintf(`{"decisions":[{"approval_id":%q,"decision":"approve"},
		{"approval_id":%q,"decision":"reject"},{"approval_id":"01890000-0000-7000-8000-000000000000","decision":"approve"},
		{"approval_id":%q,"decision":"maybe"},{"approval_id":%q,"approved":"yes"},{"decision":"approve"},null]}`, id, id, id, id))
	var out struct {
		Decisions []struct {
			OK       bool
			Code     string
			Approval struct{ Status string }
		}
	}
	if json.Unmarshal([]byte(got.body), &out) != nil || len(out.Decisions) != 7 {
		t.Fatal(got.status, got.body)
	}
	if d := out.Decisions; !d[0].OK || d[1].Code != "already_decided" || d[1].Approval.Status != "APPROVED" || d[2].Code != "not_found" {
		t.Errorf("%+v", d)
	}
	for _, d := range out.Decisions[3:] {
		if d.OK || d.Code != "invalid_body" {
			t.Errorf("%+v", d)
		}
	}
	if said := <-w.said; !strings.HasPrefix(said, "succeeded") {
		t.Error(said)
	}
}

// TestInboxRevoke: what runs, or has run, cannot be taken back.
func TestInboxRevoke(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if got := w.do("POST", "/api/approvals/"+id+"/revoke", `{}`); got.status != http.StatusNotFound {
		t.Error("not decided yet: ", got.status)
	}
	w.decide(id, `{"decision":"approve"}`)
	<-w.said
	if got := w.do("POST", "/api/approvals/"+id+"/revoke", `{}`); fields(t, got)["code"] != "already_dispatched" {
		t.Error(got.status, got.body)
	}
}

// TestInboxGrants: given, listed, used, revoked; each is in the audit, whose chain is whole.
func TestInboxGrants(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.invoke(c, "cut", `{"wood":"oak"}`)) + ", " + fmt.Sprint(w.invoke(c, "cut", `{"wood":"oak"}`)["status"])
	})
	got := w.do("POST", "/api/grants", `{"tool":"cut","match":{"wood":{"one_of":["oak","elm"]}},"max_uses":1,"note":"for today"}`)
	if got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	w.chat("T", "R", "go")
	if said := <-w.said; said != `succeeded {"cut":{"wood":"oak"}}, pending` {
		t.Error(said)
	}
	var list struct {
		Grants []struct {
			Grant_id string
			Uses     int
		}
	}
	if json.Unmarshal([]byte(w.do("GET", "/api/grants", "").body), &list) != nil || len(list.Grants) != 1 || list.Grants[0].Uses != 1 {
		t.Fatalf("%+v", list)
	}
	path := "/api/grants/" + list.Grants[0].Grant_id
	if got := w.do("DELETE", path, ""); got.status != http.StatusNoContent {
		t.Error(got.status, got.body)
	}
	if got := w.do("DELETE", path, ""); got.status != http.StatusNotFound {
		t.Error("revoked twice: ", got.status)
	}
	page := w.do("GET", "/api/audit", "").body
	for _, action := range []string{audit.GrantCreated, audit.GrantRevoked} {
		if !strings.Contains(page, action) {
			t.Errorf("%s is not in %s", action, page)
		}
	}
	if head, err := audit.Verify(t.Context(), w.store); err != nil || head.Seq < 2 {
		t.Errorf("%+v %v", head, err)
	}
}

// TestInboxGrantTemplate: a template's own end and numbers of uses hold; who gives it may
// make it less, and may not make it something else.
func TestInboxGrantTemplate(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{rules: `
templates:
  wood:
    ttl: 8h
    grants: [{tool: cut, match: {wood: oak}, uses: 2}, {tool: saw, match: {"*": true}}]
`})
	for body, want := range map[string]string{
		`{"template":"wood"}`: "cut 2 8h0m0s, saw 0 8h0m0s",
		`{"template":"wood","max_uses":5,"ttl_seconds":60,"agent":"a"}`: "cut 2 1m0s a, saw 5 1m0s a",
		`{"template":"wood","max_uses":1,"match":null}`:                 "cut 1 8h0m0s, saw 1 8h0m0s",
		`{"template":"wood","tool":"rm"}`:                               "422",
		`{"template":"wood","match":{"*":true}}`:                        "422",
		`{"template":"iron"}`:                                           "422",
		`{"tool":"cut","match":{"wood":"oak"},"agent":"a"}`:             "cut 0 720h0m0s a",
	} {
		got := h.do("POST", "/api/grants", body)
		var given struct {
			Grants []struct {
				Tool, Agent            string
				Max_uses               int
				Created_at, Expires_at time.Time
			}
		}
		if err := json.Unmarshal([]byte(got.body), &given); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, g := range given.Grants {
			all = append(all, strings.TrimSpace(fmt.Sprint(g.Tool, " ", g.Max_uses, " ", g.Expires_at.Sub(g.Created_at), " ", g.Agent)))
		}
		if got.status != http.StatusOK {
			all = append(all, fmt.Sprint(got.status))
		}
		if is := strings.Join(all, ", "); is != want {
			t.Errorf("%s: %s, want %s", body, is, want)
		}
	}
}

// TestInboxGrantForAnother: an approver may give one for a user, or for all; others for
// themselves alone.
func TestInboxGrantForAnother(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	h := newEnvWith(t, saysN(1), p)
	ann := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann"}}, time.Hour)
	boss := issue(t, keys, auth.Claims{Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "boss"}}, time.Hour)
	for _, c := range []struct{ token, members, want string }{
		{ann, ``, "ann"}, {ann, `,"user":"ann"`, "ann"}, {ann, `,"user":"bob"`, "not_approver"}, {ann, `,"everyone":true`, "not_approver"},
		{boss, `,"user":"ann"`, "ann"}, {boss, `,"everyone":true`, ""}, {boss, `,"everyone":true,"user":"ann"`, "invalid_answer"},
	} {
		var got struct {
			Code   string
			Grants []struct{ User string }
		}
		body := h.do("POST", "/api/grants", `{"tool":"cut","match":{"wood":"oak"}`+c.members+`}`, "Authorization", "Bearer "+c.token).body
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Grants) == 1 {
			got.Code = got.Grants[0].User
		}
		if got.Code != c.want {
			t.Errorf("%s: %s, want %q", c.members, body, c.want)
		}
	}
}

// TestInboxToolTTL: how long a person may take is a tool's own to say, as policy files say it.
func TestInboxToolTTL(t *testing.T) {
	t.Parallel()
	w, id := asking(t, `{"risk":"high","verdict":"require_approval","ttl":"90s"}`)
	if a := w.status(id); a.ExpiresAt.Sub(a.CreatedAt).Round(time.Second) != 90*time.Second {
		t.Errorf("it has %s", a.ExpiresAt.Sub(a.CreatedAt))
	}
	for _, ttl := range []string{`"soon"`, `90`, `"90ms"`, `"-1h"`} {
		body := `{"name":"x","kind":"client_tool","policy":{"verdict":"require_approval","ttl":` + ttl + `}}`
		if got := w.do("POST", "/v1/tools", body); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", ttl, got.status)
		}
	}
	w.decide(id, `{"decision":"reject"}`)
	<-w.said
}

// TestInboxToolGone: approved, and the tool is not registered any more: the agent gets that error.
func TestInboxToolGone(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if got := w.do("DELETE", "/v1/tools/cut", ""); got.status != http.StatusNoContent {
		t.Fatal(got.status, got.body)
	}
	w.decide(id, `{"decision":"approve"}`)
	if said := <-w.said; said != "failed tool_unknown" || w.ran.Load() != 0 {
		t.Error(said)
	}
}

// TestInboxDelegate: to whom, by whom, and taken back.
func TestInboxDelegate(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if got := w.do("POST", "/api/approvals/"+id+"/delegate", `{"to":"bea","until":"2001-01-01T00:00:00Z"}`); got.status != 422 && got.status != 400 {
		t.Error(got.status, got.body)
	}
	got := fields(t, w.do("POST", "/api/approvals/"+id+"/delegate", `{"to":"bea"}`))
	if got["delegated_to"] != "bea" || got["delegated_by"] != "local" {
		t.Fatal(got)
	}
	bea := store.As(store.Principal{Tenant: "local", User: "bea"})
	if a, err := w.store.Approval(t.Context(), bea, id); err != nil || a.ID != id {
		t.Errorf("%+v %v", a, err)
	}
	if got := fields(t, w.do("POST", "/api/approvals/"+id+"/delegate", `{"to":""}`)); got["delegated_to"] != nil {
		t.Error(got)
	}
	w.decide(id, `{"decision":"reject"}`)
	<-w.said
	if got := w.do("POST", "/api/approvals/"+id+"/delegate", `{"to":"bea"}`); fields(t, got)["code"] != "already_decided" {
		t.Error(got.status, got.body)
	}
}
