package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// TestNamesDecideExactly: a decision whose member stands twice, or beside one in another case, decides nothing on any
// surface; a filter before us could read the other one.
func TestNamesDecideExactly(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.open(h.prompt("T", "R1", "go")).rest()
	id := h.question()
	for _, body := range []string{
		`{"decision":"reject","Decision":"approve"}`, `{"Decision":"approve"}`, `{"option_id":"no","OPTION_ID":"yes"}`,
		`{"optionId":"no","option_id":"no","decision":"reject","DECISION":"approve"}`, `{"option_id":"no","option_id":"yes"}`,
		`{"option_id":"no","opt\u0130on_id":"yes","Option_ID":"yes"}`,
	} {
		got := h.decide(id, body)
		if got.status != 400 || !strings.Contains(got.body, "ambiguous_member") && !strings.Contains(got.body, "duplicate") {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for _, entry := range []string{
		`{"interruptId":%q,"status":"cancelled","Status":"resolved","payload":{"approved":true}}`,
		`{"interruptId":%q,"status":"resolved","payload":{"approved":false,"Approved":true}}`,
		`{"interruptId":%q,"status":"resolved","payload":{"optionId":"no","OptionId":"yes"}}`,
		`{"interruptId":%q,"status":"resolved","payload":"{\"approved\":false,\"approved\":true}"}`,
	} {
		h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T","runId":"x%d","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[],"resume":[`+entry+`]}`, len(entry), id))).rest()
		if a := h.status(id); a.Status == store.ApprovalApproved {
			t.Fatalf("%s approved it", entry)
		}
	}
}

// TestUpstreamIDWithNUL: a question that could not be answered under its own id fails its Turn with a code, and the agent's
// earlier output stays.
func TestUpstreamIDWithNUL(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: "m", Delta: "before"}), event(&agui.TextMessageEnd{MessageID: "m"}))
		say(permission("q\x00"))
	})
	all := ""
	for _, f := range h.open(h.prompt("T", "R1", "go")).rest() {
		all += f.data
	}
	if !strings.Contains(all, `"before"`) || !strings.Contains(all, `"upstream_protocol_error"`) {
		t.Error(all)
	}
	if got := h.do("GET", "/api/approvals", ""); got.status != 200 || strings.Contains(got.body, `"title":"Delete it?"`) {
		t.Errorf("it is asked: %d %s", got.status, got.body)
	}
}

// TestMetricsAreForOperators: they cover every tenant; and the page can be left out.
func TestMetricsAreForOperators(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	p.noPage = true
	h := newEnvWith(t, asks, p)
	isProblem(t, h.do("GET", "/", ""), 404)
	token := issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ann", Roles: []string{"admin", "approver"}}}, time.Hour)
	if got := h.do("GET", "/metrics", "", "Authorization", "Bearer "+token); got.status != 403 || !strings.Contains(got.body, "not_operator") {
		t.Error(got.status, got.body)
	}
	if got := newEnv(t, asks).do("GET", "/metrics", ""); got.status != 200 { // without sign-in the caller operates
		t.Error(got.status)
	}
}
