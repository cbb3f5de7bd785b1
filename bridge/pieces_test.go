package bridge_test

import (
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// Whatever member of an event an Agent makes too large, the Run ends, its events stay
// under the limit, and what came of it is a legal stream.
func TestAnEventTooLargeInAnyMemberStaysLegal(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 2<<20)
	call := []bridge.Output{
		{Event: &agui.ToolCallStart{ToolCallID: "c", ToolCallName: huge}},
		{Event: &agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"}}, {Event: &agui.ToolCallEnd{ToolCallID: "c"}}, done(),
	}
	noop := `{"op":"test","path":"/a","value":1},`
	for name, c := range map[string]struct {
		outputs []bridge.Output
		want    string
	}{
		"error code": {
			[]bridge.Output{{End: &bridge.End{Failure: fault.New(huge, huge)}}},
			"RUN_STARTED RUN_ERROR",
		},
		"usage": {
			[]bridge.Output{{End: &bridge.End{Usage: []agui.TokenUsage{{Model: huge}}, Result: []byte(`"` + huge + `"`)}}},
			"RUN_STARTED RUN_FINISHED",
		},
		"tool name": {call, "RUN_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED"},
		"step name": {
			[]bridge.Output{{Event: &agui.StepStarted{StepName: huge}}, {Event: &agui.StepFinished{StepName: huge}}, done()},
			"RUN_STARTED STEP_STARTED STEP_FINISHED RUN_FINISHED",
		},
		"state delta": { // told as the state it makes
			[]bridge.Output{
				{Event: &agui.StateSnapshot{Snapshot: []byte(`{"a":1}`)}},
				{Event: &agui.StateDelta{Delta: []byte(`[` + strings.Repeat(noop, 50000) + `{"op":"add","path":"/b","value":2}]`)}}, done(),
			},
			"RUN_STARTED STATE_SNAPSHOT RUN_FINISHED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output { return c.outputs }})
			events := h.chat(ask("t1", "hi"))
			if got := types(events); got != c.want {
				t.Fatalf("got  %s\nwant %s", got, c.want)
			}
			var grammar agui.Grammar
			for _, e := range events {
				if len(e) > 1<<20 {
					t.Errorf("an event of %d bytes", len(e))
				}
				if ev, err := agui.Decode([]byte(e)); err != nil {
					t.Error(err)
				} else if err := grammar.Check(ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
