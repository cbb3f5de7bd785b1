package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
)

// TestEventsTooLargeForTheLog: an event that does not fit is whole in the context store, under the key that the log has in its
// place: for the thread's user and its agent, without its secrets, and no longer than the thread.
func TestEventsTooLargeForTheLog(t *testing.T) {
	t.Parallel()
	filter, err := redact.New([]string{`ACME-\d{4}-[a-z]+`})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := redact.NewVault(redact.NewKeyLine())
	if err != nil {
		t.Fatal(err)
	}
	onBothDatabases(t, func(t *testing.T, db database) {
		long := strings.Repeat("0123456789 ", 200<<10) + "ACME-1234-quetzal the end"
		value, _ := json.Marshal(map[string]string{"text": long}) // a text always can be written
		h := newEnvWith(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
			say(event(&agui.Custom{Name: "chart", Value: value}),
				event(&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"}), event(&agui.ToolCallEnd{ToolCallID: "c"}),
				event(&agui.ToolCallResult{MessageID: "r", ToolCallID: "c", Content: agui.Text(long)}))
		}, plan{open: db.open, secrets: redact.Hasher{Filter: filter, Vault: vault}})
		var keys []string
		for _, f := range h.chat("T", "R", "hi") {
			ev, err := agui.Decode([]byte(f.data))
			if err != nil {
				t.Fatal(err)
			}
			switch e := ev.(type) {
			case *agui.Custom:
				var mark struct {
					Type       string
					ContextKey string `json:"context_key"`
				}
				if json.Unmarshal(e.Value, &mark) != nil || e.Name != "event_too_large" || mark.Type != "CUSTOM" {
					t.Errorf("%s %s", e.Name, e.Value)
				}
				keys = append(keys, mark.ContextKey)
			case *agui.ToolCallResult:
				_, key, _ := strings.Cut(e.Content.String(), "context_key ")
				keys = append(keys, strings.TrimSuffix(key, "]"))
			}
		}
		if len(keys) != 2 {
			t.Fatal(keys)
		}
		for i, key := range keys {
			a := h.do("GET", "/v1/context/"+key, "")
			ev, err := agui.Decode([]byte(a.body))
			if err != nil {
				t.Fatal(a.status, err)
			}
			got := ""
			switch e := ev.(type) {
			case *agui.Custom:
				var all struct{ Text string }
				if err := json.Unmarshal(e.Value, &all); err != nil {
					t.Error(err)
				}
				got = all.Text
			case *agui.ToolCallResult:
				got = e.Content.String()
			}
			if got != strings.Replace(long, "ACME-1234-quetzal", "[redacted]", 1) {
				t.Errorf("%d: %d of %d bytes: %.60s … %s", i, len(got), len(long), got, got[max(0, len(got)-60):])
			}
		}
		if a := h.do("DELETE", "/api/threads/T", ""); a.status != 204 {
			t.Fatal(a.status)
		}
		isProblem(t, h.do("GET", "/v1/context/"+keys[0], ""), 404)
	})
}
