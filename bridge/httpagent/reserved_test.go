package httpagent

import (
	"testing"

	"aqueduct/agui"
)

// TestS66HTTPAgent: an agent over HTTP sends no CUSTOM event and shows no tool under a name of the server's.
func TestS66HTTPAgent(t *testing.T) {
	t.Parallel()
	for frame, want := range map[string]string{
		`custom {"name":"acp.permission_declined","value":1}`: "agent.acp.permission_declined",
		`custom {"name":"proxy.text","value":1}`:              "agent.proxy.text",
		`custom {"name":"Question_settled","value":1}`:        "agent.Question_settled",
		`custom {"name":"aqueduct.x"}`:                        "agent.aqueduct.x",
		`custom {"name":"mine"}`:                              "mine",
		`aqueduct.x {}`:                                       "agent.aqueduct.x",
	} {
		if got := translated(t, frame)[0].Event.(*agui.Custom).Name; got != want {
			t.Errorf("%s is %s", frame, got)
		}
	}
	for _, frame := range []string{`tool_call {"id":"1","name":"budget.extend","args":{}}`, `tool_call_start {"id":"1","name":"budget.extend"}`} {
		if got := translated(t, frame)[0].Event.(*agui.ToolCallStart).ToolCallName; got != "agent.budget.extend" {
			t.Errorf("%s is shown as %s", frame, got)
		}
	}
}
