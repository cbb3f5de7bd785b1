package livefeed_test

import (
	"encoding/json"
	"testing"
	"time"

	"aqueduct/bridge/livefeed"
)

// TestFrames: the shapes of /ws/client, to the byte.
func TestFrames(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{ "sessionUpdate":"x", "text":"a<b" }`)
	at := time.Date(2026, 2, 3, 4, 5, 6, 7e6, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"acp.prompt_update":         {livefeed.PromptUpdate("r", "p", "s", raw), `{"type":"acp.prompt_update","run_id":"r","prompt_id":"p","session_id":"s","update":{"sessionUpdate":"x","text":"a<b"}}`},
		"outside a prompt":          {livefeed.PromptUpdate("r", "", "", raw), `{"type":"acp.prompt_update","run_id":"r","prompt_id":null,"session_id":null,"update":{"sessionUpdate":"x","text":"a<b"}}`},
		"an update that is no JSON": {livefeed.PromptUpdate("r", "p", "s", json.RawMessage(`{`)), ""},
		"event_added": {livefeed.EventAdded(livefeed.Event{ID: "e", RunID: "r", Source: "acp", Type: "acp.update.received", Payload: json.RawMessage(`{"type":"session_update"}`), Timestamp: at}),
			`{"type":"event_added","run_id":"r","event":{"id":"e","runId":"r","source":"acp","type":"acp.update.received","payload":{"type":"session_update"},"timestamp":"2026-02-03T03:05:06.007Z"}}`},
		"run.init_step": {livefeed.InitStep("r", json.RawMessage(`{"stage":"init","status":"running"}`)), `{"type":"run.init_step","run_id":"r","step":{"stage":"init","status":"running"}}`},
		"workspace_inventory": {livefeed.WorkspaceInventory("p", "i", "2026-02-03T03:05:06Z", json.RawMessage(`[]`)),
			`{"type":"workspace_inventory","proxy_id":"p","inventory_id":"i","captured_at":"2026-02-03T03:05:06Z","workspaces":[]}`},
		"sandbox_inventory": {livefeed.SandboxInventory("p", "i", "2026-02-03T03:05:06Z", json.RawMessage(`[]`)),
			`{"type":"sandbox_inventory","proxy_id":"p","inventory_id":"i","captured_at":"2026-02-03T03:05:06Z","instances":[]}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s:\n%s\n%s", name, c.got, c.want)
		}
	}
}
