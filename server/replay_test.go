package server_test

import (
	"encoding/json"
	"testing"

	"aqueduct/store"
)

// TestS17ApprovalReplay: a decision that comes again has the recorded answer and no second effect, on another Run's
// question it is another decision, and a contradicting one is refused and audited. (Links: TestLinkDecides,
// TestLinkRefused.)
func TestS17ApprovalReplay(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T1", "R1", "may I?")
	first := h.question()
	if got := fields(t, h.decide(first, `{"decision":"approve"}`)); got["won"] != true {
		t.Fatal(got)
	}
	again := fields(t, h.decide(first, `{"decision":"approve"}`))
	if again["won"] == true || again["status"] != "APPROVED" {
		t.Errorf("again: %v", again)
	}
	h.chat("T2", "R2", "may I?")
	if left := h.questions(); len(left) != 1 || left[0] == first {
		t.Fatalf("the decision of the first Run settled the second's: %v", left)
	}
	if p := isProblem(t, h.decide(first, `{"decision":"reject"}`), 409); p["code"] != "already_decided" {
		t.Error(p)
	}
	rows, err := h.store.Audit(t.Context(), store.System(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, e := range rows {
		if e.SubjectID == first {
			got[e.Action]++
		}
	}
	if text, _ := json.Marshal(got); string(text) != `{"approval.decided":1,"approval.refused":1}` {
		t.Errorf("audited: %s", text)
	}
}
