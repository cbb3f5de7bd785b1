package judges_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// toolAgent starts an HTTP agent that has tools run by the server: each word of a prompt is one, and "show" has it show
// the next by its own frames too. The flags have the server know it, and its tools: cut, burn, which the policy blocks, and
// pay, which a person is asked about.
func toolAgent(t *testing.T) (flags []string) {
	t.Helper()
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Args json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&call)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"made":%s}`, call.Args)
	}))
	t.Cleanup(tool.Close)
	agent := httptest.NewServer(http.HandlerFunc(callTools))
	t.Cleanup(func() {
		agent.CloseClientConnections()
		agent.Close()
	})
	file := filepath.Join(t.TempDir(), "tools.yaml")
	text := fmt.Sprintf(`tools:
- {name: cut, kind: server_tool, endpoint: %[1]q, policy: {risk: low}}
- {name: burn, kind: server_tool, endpoint: %[1]q, policy: {risk: low, verdict: block}}
- {name: pay, kind: server_tool, endpoint: %[1]q, policy: {risk: high, verdict: require_approval}}
`, tool.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--agent", "tools=" + agent.URL, "--tools-file", file, "--outbound", "127.0.0.0/8"}
}

func callTools(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // whether it is well
		return
	}
	var call struct {
		Input struct {
			Content string `json:"content"`
		} `json:"input_message"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event, data string) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		_ = http.NewResponseController(w).Flush()
	}
	send("delta", `{"text":"First. "}`)
	shown := false
	for n, word := range bytes.Fields([]byte(call.Input.Content)) {
		id := fmt.Sprint("call-", n)
		if string(word) == "show" {
			shown = true
			continue
		}
		if shown {
			send("tool_call_start", fmt.Sprintf(`{"id":%q,"name":%q}`, id, word))
			send("tool_call_args", fmt.Sprintf(`{"id":%q,"delta":"{\"n\""}`, id))
			send("tool_call_args", fmt.Sprintf(`{"id":%q,"delta":":%d}"}`, id, n))
			send("tool_call_end", fmt.Sprintf(`{"id":%q}`, id))
		}
		had := haveRun(r, string(word), fmt.Sprintf(`{"run_id":%q,"args":{"n":%d},"call_id":%q}`, r.Header.Get("x-run-id"), n, id))
		if shown {
			send("tool_result", fmt.Sprintf(`{"id":%q,"content":%q}`, id, had))
		}
		shown = false
	}
	send("delta", `{"text":"Last."}`)
	send("done", "{}")
}

// haveRun has the server run a tool, and waits for the end of one that a person is asked about.
func haveRun(r *http.Request, tool, body string) string {
	base, path := r.Header.Get("x-aqueduct-base-url"), "/v1/tools/"+tool+":invoke"
	for {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, base+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Authorization", "Bearer "+r.Header.Get("x-aqueduct-run-token"))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err.Error()
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var out struct {
			Status string
			ID     string `json:"tool_call_id"`
		}
		if err != nil || json.Unmarshal(raw, &out) != nil || out.Status != "pending" {
			return string(raw)
		}
		path, body = "/v1/tool_calls/"+out.ID+":wait", "{}"
	}
}
