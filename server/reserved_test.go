package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/mcpservers"
)

// TestS66ReservedNames: no tool of a name of the server's is registered, declared by a client, called or asked about.
func TestS66ReservedNames(t *testing.T) {
	t.Parallel()
	offered, answers := make(chan []string, 1), make(chan map[string]any, 1)
	w := &toolEnv{}
	w.env = newEnv(t, func(_ context.Context, say func(...bridge.Output), call bridge.Call, answered []approval.Delivery) {
		if len(answered) > 0 {
			return
		}
		var names []string
		for _, tool := range call.Tools {
			names = append(names, tool.Name)
		}
		offered <- names
		answers <- w.invoke(call, "aqueduct.run", `{}`)
		say(bridge.Output{Question: &approval.Request{UpstreamID: "q", Kind: approval.AskPermission, Tool: "budget.extend", Title: "More budget"}},
			bridge.Output{Question: &approval.Request{UpstreamID: "i", Kind: approval.AskInput, ToolName: "Budget.extend", Title: "More budget"}})
	})
	for _, name := range []string{"aqueduct.run", "Aqueduct.run", "budget.more", "BUDGET.extend", "request_permission", "Request_Input"} {
		got := w.do("POST", "/v1/tools", fmt.Sprintf(`{"name":%q,"kind":"client_tool"}`, name))
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "reserved") {
			t.Errorf("%s is registered: %v", name, got)
		}
	}
	for _, name := range []string{"aqueduct", "Budget"} {
		if mcpservers.ValidName(name) {
			t.Errorf("an MCP server may be called %s", name)
		}
	}
	var declared []string
	for _, name := range []string{"aqueduct.run", "budget.extend", "request_permission", "request_input", "mine"} {
		declared = append(declared, fmt.Sprintf(`{"name":%q,"description":"","parameters":{}}`, name))
	}
	w.do("POST", "/api/agui/chat", `{"threadId":"T","runId":"R","messages":[{"id":"u","role":"user","content":"go"}],"tools":[`+strings.Join(declared, ",")+`]}`)
	if got := <-offered; !slices.Equal(got, []string{"mine"}) {
		t.Errorf("the agent is offered %v", got)
	}
	if got := <-answers; !strings.Contains(fmt.Sprint(got["error"]), "tool_unknown") {
		t.Errorf("a client's tool of a reserved name is called: %v", got)
	}
	eventually(t, func() error {
		got := w.do("GET", "/api/approvals?status=PENDING", "").body
		if strings.Count(got, `"approval_id"`) != 2 {
			return fmt.Errorf("%s", got)
		}
		if strings.Count(strings.ToLower(got), `"tool_name":"agent.budget.extend"`) != 2 {
			t.Errorf("it is asked about as %s", got)
		}
		return nil
	})
}
