package bridge_test

import (
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// TestQuestionWithABadSchemaIsRefused: nobody is asked, the chat and the agent get the code, and the agent goes on. One
// that asks the same again and again ends its Turn.
func TestQuestionWithABadSchemaIsRefused(t *testing.T) {
	t.Parallel()
	asking := []bridge.Output{
		{Question: &approval.Request{UpstreamID: "q", Kind: approval.AskInput, ResponseSchema: []byte(`{"$ref":"file:///dev/ptmx"}`)}},
		{End: &bridge.End{Pending: []string{"q"}}},
	}
	var heard []approval.Delivery
	h := newHarness(t, &scripted{script: func(_ bridge.Call, answers []approval.Delivery) []bridge.Output {
		if len(answers) == 0 {
			return asking
		}
		heard = answers
		return []bridge.Output{done()}
	}})
	events := h.chat(ask("t1", "hi"))
	all := strings.Join(events, "\n")
	if !strings.Contains(all, `schema_reference`) || !strings.Contains(events[len(events)-1], "RUN_FINISHED") || strings.Contains(all, "interrupt") {
		t.Errorf("got %s", all)
	}
	if len(heard) != 1 || heard[0].UpstreamID != "q" || heard[0].Status != "cancelled" {
		t.Errorf("the agent heard %+v", heard)
	}

	h = newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output { return asking }})
	events = h.chat(ask("t1", "hi"))
	if last := events[len(events)-1]; !strings.Contains(last, "RUN_ERROR") || !strings.Contains(last, "schema_reference") {
		t.Errorf("after %d events: %s", len(events), last)
	}
}
