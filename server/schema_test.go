package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// schemaCases are requests for the codes of schemas.
func schemaCases(t *testing.T, cases map[string]func() answer) {
	h := newEnv(t, inputOf(`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`))
	h.chat("T", "R", "hi")
	register := func(schema string) func() answer {
		return func() answer {
			return h.do("POST", "/v1/tools", `{"name":"x","kind":"client_tool","schema":`+schema+`}`)
		}
	}
	cases["schema_too_large"] = register(`{"title":"` + strings.Repeat("x", 64<<10) + `"}`)
	cases["schema_invalid"] = register(`{"type":"nothing"}`)
	cases["schema_reference"] = register(`{"$ref":"file:///dev/ptmx"}`)
	cases["schema_too_complex"] = register(`{"$ref":"#"}`)
	cases["schema_pattern"] = register(`{"pattern":"((a{30}){30}){30}"}`)
	cases["value_too_complex"] = func() answer {
		return h.decide(h.question(), `{"payload":`+strings.Repeat("[", 50)+strings.Repeat("]", 50)+`}`)
	}
}

// inputOf asks for a value with that schema.
func inputOf(schema string) script {
	return func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
		if len(answers) == 0 {
			say(bridge.Output{Question: &approval.Request{
				UpstreamID: "i", Kind: approval.AskInput, ToolName: "collect", Title: "Which?", ResponseSchema: json.RawMessage(schema),
			}})
		}
	}
}

// A tool that the client declared with a broken schema takes no call: the agent gets the schema's code.
func TestDeclaredToolWithABrokenSchemaTakesNothing(t *testing.T) {
	t.Parallel()
	var got string
	var h *env
	h = newEnv(t, func(ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		req := h.request("POST", "/v1/tools/look:invoke", `{"run_id":"`+call.TurnID+`","args":{}}`, "Authorization", "Bearer "+call.RunToken)
		resp, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err != nil {
			got = err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got = string(body)
	})
	body := strings.Replace(inputBody("T", "R", "hi"), `"tools":[]`, `"tools":[{"name":"look","description":"","parameters":{"$ref":"file:///dev/ptmx"}}]`, 1)
	h.do("POST", "/api/agui/chat", body)
	if !strings.Contains(got, "schema_reference") {
		t.Errorf("%s", got)
	}
}
