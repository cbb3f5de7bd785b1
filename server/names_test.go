package server_test

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/store"
)

// TestNamesDecideExactly: a decision whose member stands twice, or beside one in another case, decides nothing on any
// surface; a filter before us could read the other one.
func TestNamesDecideExactly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asks)
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

// TestMetricsAreForOperators, and the page can be left out.
func TestMetricsAreForOperators(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, asks, plan{noPage: true})
	isProblem(t, h.do("GET", "/", ""), 404)
	if got := h.do("GET", "/healthz", ""); got.status != 200 {
		t.Error(got.status)
	}
}
