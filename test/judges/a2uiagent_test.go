package judges_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"aqueduct/test/nodetest"
)

// TestA2UI: the middleware of A2UI, as it ships, on both official clients.
func TestA2UI(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/@ag-ui/a2ui-middleware/package.json", "make setup-judges")
	agent := httptest.NewServer(&surfaceAgent{calls: make(map[string]int)})
	t.Cleanup(func() {
		agent.CloseClientConnections()
		agent.Close()
	})
	judge(t, serve(t, "0s", "--agent", "a2ui="+agent.URL+",protocol=agui"), "a2ui.test.mjs")
}

// surfaceAgent speaks AG-UI. "surface" draws a surface by a call of render_a2ui, with a result where the page does not declare
// that tool. Any other call is answered with what the agent was called with.
type surfaceAgent struct {
	mu    sync.Mutex
	calls map[string]int // by thread
}

const surface = `{"surfaceId":"form","components":[{"id":"root","component":"Column","children":["button"]},{"id":"button","component":"Button","child":"label","action":{"event":{"name":"book"}}},{"id":"label","component":"Text","text":"Book"}]}`

// ServeHTTP implements http.Handler.
func (a *surfaceAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ThreadID, RunID string
		Messages        []struct {
			Role, ToolCallID string
			Content          any
			ToolCalls        []struct {
				ID       string
				Function struct{ Name string }
			}
		}
		Tools          []struct{ Name string }
		ForwardedProps json.RawMessage
	}
	if r.Method != http.MethodPost {
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.calls[in.ThreadID]++
	call := a.calls[in.ThreadID]
	a.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, values ...any) { fmt.Fprintf(w, "data: "+format+"\n\n", values...) }
	send(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID)
	defer send(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID)
	last := in.Messages[len(in.Messages)-1]
	if text, _ := last.Content.(string); last.Role == "user" && strings.Contains(text, "surface") {
		send(`{"type":"TOOL_CALL_START","toolCallId":"render","toolCallName":"render_a2ui","parentMessageId":"m%d"}`, call)
		send(`{"type":"TOOL_CALL_ARGS","toolCallId":"render","delta":%q}`, surface)
		send(`{"type":"TOOL_CALL_END","toolCallId":"render"}`)
		for _, tool := range in.Tools {
			if tool.Name == "render_a2ui" {
				return
			}
		}
		send(`{"type":"TOOL_CALL_RESULT","messageId":"r%d","toolCallId":"render","content":"{\"status\":\"rendered\"}"}`, call)
		return
	}
	pressed, made, roles := []any{}, make(map[string]bool), []string{}
	for _, m := range in.Messages {
		roles = append(roles, m.Role)
		for _, c := range m.ToolCalls {
			made[c.ID] = c.Function.Name == "log_a2ui_event"
		}
		if made[m.ToolCallID] {
			pressed = append(pressed, m.Content)
		}
	}
	text, _ := json.Marshal(map[string]any{"call": call, "props": in.ForwardedProps, "pressed": pressed, "roles": roles})
	send(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","role":"assistant","delta":%q}`, call, text)
}
