package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAssistant: the agent that comes with the server uses tools of npm's MCP servers, one over standard streams and one over
// HTTP, each with the approval that its call needs. The model is scripted: it calls one after the other, then tells what they
// gave.
func TestAssistant(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Role, Content string }
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var results []string
		for _, m := range body.Messages {
			if m.Role == "tool" {
				results = append(results, m.Content)
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		delta := fmt.Sprintf(`{"content":%q}`, "They gave "+strings.Join(results, " and "))
		if next := []string{"every_echo", "far_echo"}; len(results) < len(next) {
			delta = fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":%q,"arguments":"{\"message\":\"%d\"}"}}]}`, next[len(results)], len(results)+1)
		}
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":%s,"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n", delta)
	}))
	t.Cleanup(model.Close)
	e := newEnv(t, "--mcp", "every=node "+npmServer(t, "server-everything")+" stdio", "--mcp", "far="+everythingByHTTP(t, freePort(t)).url,
		"--llm-url", model.URL+"/v1", "--model", "scripted")
	e.offers("every.echo", true)
	e.offers("far.echo", true)
	resp, err := http.Post(e.server.url+"/api/agui/chat?agent=assistant", "application/json", strings.NewReader(
		`{"threadId":"A","runId":"A-r","protocolVersion":"1.0","messages":[{"id":"a","role":"user","content":"go"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(raw), `"type":"interrupt"`) {
		t.Fatalf("%s %v", raw, err)
	}
	for _, tool := range []string{"every.echo", "far.echo"} {
		e.decide(e.asked(tool).ID, `{"decision":"approve"}`)
	}
	e.eventually("the answer", func() error {
		var messages json.RawMessage
		e.request(http.MethodGet, "/api/threads/A/messages", "", "", &messages)
		if !strings.Contains(string(messages), "They gave") || !strings.Contains(string(messages), "Echo: 1") || !strings.Contains(string(messages), "Echo: 2") {
			return errors.New(string(messages))
		}
		return nil
	})
}
