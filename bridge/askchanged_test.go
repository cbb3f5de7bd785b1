package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// TestS18AnHTTPAgentThatChangesItsQuestionIsAskedAnew: the id of an open question used again for other arguments expires
// that question; the approval that counts is of the new one. The same question twice stays one.
func TestS18AnHTTPAgentThatChangesItsQuestionIsAskedAnew(t *testing.T) {
	t.Parallel()
	asking := func(command string) bridge.Output {
		return bridge.Output{Question: &approval.Request{
			UpstreamID: "q", Kind: approval.AskPermission, Tool: "shell", Title: "Run it?", Args: json.RawMessage(`{"command":"` + command + `"}`),
			Options: []approval.Option{{ID: "yes", Label: "Yes", Kind: "allow_once"}, {ID: "no", Label: "No", Kind: "reject_once"}},
		}}
	}
	var heard []approval.Delivery
	h := newHarness(t, &scripted{script: func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if len(answers) > 0 {
			heard = append(heard, answers...)
			return []bridge.Output{done()}
		}
		return []bridge.Output{asking("ls"), asking("ls"), asking("rm -rf /"), {End: &bridge.End{Pending: []string{"q"}}}}
	}})
	h.chat(ask("t1", "hi"))
	all, err := h.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{}, store.Page{Limit: 10})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d questions, %v", len(all), err)
	}
	var open, old store.Approval
	for _, a := range all {
		if a.Status == store.ApprovalPending {
			open = a
		} else {
			old = a
		}
	}
	if !strings.Contains(string(open.Args), "rm -rf /") || old.Status != store.ApprovalExpired || old.DecidedVia != approval.ViaChanged {
		t.Fatalf("open %s, old %s via %s", open.Args, old.Status, old.DecidedVia)
	}
	if _, err := h.sessions.Approvals().Decide(t.Context(), h.who, old.ID, approval.Answer{QuestionID: old.ID, Payload: []byte(`{"optionId":"yes"}`)}, approval.ViaREST); err == nil {
		t.Error("the old question can still be approved")
	}
	h.chat(bridge.ChatRequest{ThreadID: "t1", RunID: "r2", Answers: []approval.Answer{{QuestionID: open.ID, Payload: []byte(`{"optionId":"no"}`)}}})
	if len(heard) != 1 || !strings.Contains(string(heard[0].Payload), `"no"`) {
		t.Errorf("the agent heard %+v", heard)
	}
}
