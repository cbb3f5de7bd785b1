package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestAGUIAgentCallsAgain: an agent whose calls are all named call_0 left one without a result: its run ended with it, or failed. The
// call of its next run is another call, which clients are shown and whose result is its own.
func TestAGUIAgentCallsAgain(t *testing.T) {
	for name, end := range map[string]string{
		"the run ended": aguiEnd,
		"the run failed": `
{"type":"RUN_ERROR","message":"no tool"}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
					switch call {
					case 1:
						return aguiBegin + toolCalled("call_0", "", "weather", oslo) + end
					case 2:
						return aguiBegin + toolCalled("call_0", "", "weather", bergen) + answered("t2", "call_0", "8") + aguiEnd
					}
					return aguiBegin + aguiEnd
				})
				first, second := h.chat("T", "R1", "hi"), h.chat("T", "R2", "and Bergen?")
				if a, b := typed(first, "TOOL_CALL_START").field("toolCallId"), typed(second, "TOOL_CALL_START").field("toolCallId"); b == "" || a == b {
					t.Fatalf("the call %q is followed by %q:\n%s", a, b, types(second))
				}
				if a, b := typed(second, "TOOL_CALL_START").field("toolCallId"), typed(second, "TOOL_CALL_RESULT").field("toolCallId"); a != b {
					t.Errorf("the result is of %s, and the call is %s", b, a)
				}
				h.chat("T", "R3", "thanks")
				var sent []string
				for _, m := range peer.call(3).Messages {
					for _, c := range m.ToolCalls {
						sent = append(sent, c.Function.Arguments)
					}
					if m.Role == "tool" {
						sent = append(sent, fmt.Sprint(m.Content))
					}
				}
				if got, want := strings.Join(sent, " "), oslo+` {"status":"no_result"} `+bergen+" 8"; got != want {
					t.Errorf("the agent is sent %s, not %s", got, want)
				}
			})
		})
	}
}
