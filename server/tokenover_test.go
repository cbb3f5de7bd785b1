package server_test

import (
	"fmt"
	"testing"
)

// TestRunTokenAfterItsTurn: the token of a run whose Turn is over opens none of the routes that take it, named for its own run, its
// own call or its own thread.
func TestRunTokenAfterItsTurn(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		a := newAtWork(t, plan{open: db.open})
		h := a.h
		call, token, over := a.prompted("T", "R1")
		entry := h.entry(h.do("POST", "/v1/context", `{"content":1}`, token...), 201)
		over()
		next, nextToken, end := a.prompted("T", "R2") // the thread is at work again, with another token
		for _, ask := range [][3]string{
			{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
			{"POST", "/v1/chat/completions", `{"model":"m","messages":[]}`},
			{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`},
			{"POST", "/v1/responses", `{"model":"m","input":"x"}`},
			{"GET", "/v1/models", ""},
			{"GET", "/v1/tools", ""},
			{"POST", "/v1/tools/none:invoke", fmt.Sprintf(`{"run_id":%q,"args":{}}`, call.TurnID)},
			{"POST", "/v1/tools/none:invoke", fmt.Sprintf(`{"run_id":%q,"args":{}}`, next.TurnID)},
			{"GET", "/v1/tool_calls/00000000-0000-7000-8000-000000000000", ""},
			{"POST", "/v1/tool_calls/00000000-0000-7000-8000-000000000000:wait", "{}"},
			{"POST", "/v1/context", `{"content":1}`},
			{"GET", "/v1/context", ""},
			{"GET", "/v1/context/" + entry.ContextKey, ""},
			{"PUT", "/v1/context/" + entry.ContextKey, `1`},
			{"DELETE", "/v1/context/" + entry.ContextKey, ""},
			{"POST", "/v1/agents/b:invoke", fmt.Sprintf(`{"run_id":%q,"input_message":{"role":"user","content":"x"}}`, call.TurnID)},
			{"GET", "/v1/agents", ""},
			{"GET", "/v1/runs/" + call.TurnID + "/tree", ""},
			{"GET", "/v1/sessions/T/messages", ""},
			{"POST", "/v1/sessions/T/messages", `{"message":{"id":"n","role":"assistant","content":"x"}}`},
			{"GET", "/api/threads/T/parts/" + fmt.Sprintf("%064d", 0), ""},
		} {
			if got := h.do(ask[0], ask[1], ask[2], token...); got.status != 401 {
				t.Errorf("%s %s: %d %s", ask[0], ask[1], got.status, got.body)
			}
		}
		if got := h.do("GET", "/v1/context/"+entry.ContextKey, "", nextToken...); got.status != 200 {
			t.Errorf("the next run: %d", got.status)
		}
		end()
	})
}
