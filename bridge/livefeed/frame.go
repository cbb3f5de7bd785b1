package livefeed

import (
	"bytes"
	"encoding/json"
	"time"

	"aqueduct/store"
)

// The frames of /ws/client, in the contract's shapes (§5). A run_id there is our Session. Each is encoded once, for all
// its watchers.

// PromptUpdate is an update of an agent as it came; "" for a prompt or a session is null.
func PromptUpdate(runID, promptID, sessionID string, update json.RawMessage) []byte {
	return frame(struct {
		Type      string          `json:"type"`
		RunID     string          `json:"run_id"`
		PromptID  *string         `json:"prompt_id"`
		SessionID *string         `json:"session_id"`
		Update    json.RawMessage `json:"update"`
	}{"acp.prompt_update", runID, orNull(promptID), orNull(sessionID), update})
}

// Event is what was kept.
type Event struct {
	ID        string          `json:"id"`
	RunID     string          `json:"runId"`
	Source    string          `json:"source"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`
	Timestamp time.Time       `json:"timestamp"`
}

// EventAdded is the hint that an Event was kept.
func EventAdded(e Event) []byte {
	e.Timestamp = e.Timestamp.UTC()
	return frame(struct {
		Type  string `json:"type"`
		RunID string `json:"run_id"`
		Event Event  `json:"event"`
	}{"event_added", e.RunID, e})
}

// InitStep is a step of the preparation of a run's place.
func InitStep(runID string, step json.RawMessage) []byte {
	return frame(struct {
		Type  string          `json:"type"`
		RunID string          `json:"run_id"`
		Step  json.RawMessage `json:"step"`
	}{"run.init_step", runID, step})
}

// ThreadChanged is the frame of a thread that changed: a Run began or ended, it was renamed, or
// deleted. One that is gone has its run_id alone.
func ThreadChanged(s store.Session) []byte {
	out := struct {
		Type      string     `json:"type"`
		RunID     string     `json:"run_id"`
		ThreadID  string     `json:"thread_id,omitempty"`
		AgentID   string     `json:"agent_id,omitempty"`
		Title     string     `json:"title,omitempty"`
		UpdatedAt *time.Time `json:"updated_at,omitempty"`
		Gone      bool       `json:"gone,omitempty"`
	}{Type: "thread_changed", RunID: s.ID, ThreadID: s.ExternalID, AgentID: s.AgentID, Title: s.Title, Gone: s.ExternalID == ""}
	if !s.UpdatedAt.IsZero() {
		at := s.UpdatedAt.UTC()
		out.UpdatedAt = &at
	}
	return frame(out)
}

// ApprovalChanged is the frame of a Question that was opened or settled. The decision itself is
// in the inbox.
func ApprovalChanged(c store.ApprovalChange) []byte {
	a := c.Approval
	kind, status := "approval_opened", store.ApprovalPending
	if c.Settled {
		kind, status = "approval_settled", a.Status
	}
	return frame(struct {
		Type       string `json:"type"`
		RunID      string `json:"run_id"`
		ThreadID   string `json:"thread_id"`
		ApprovalID string `json:"approval_id"`
		Kind       string `json:"kind"`
		Status     string `json:"status"`
		ToolName   string `json:"tool_name,omitempty"`
		Title      string `json:"title,omitempty"`
		Risk       string `json:"risk,omitempty"`
	}{kind, a.SessionID, c.Thread, a.ID, string(a.Kind), string(status), a.Tool, a.Title, a.Risk})
}

// inventory is what both inventories share.
type inventory struct {
	Type        string          `json:"type"`
	ProxyID     string          `json:"proxy_id"`
	InventoryID string          `json:"inventory_id"`
	CapturedAt  string          `json:"captured_at"`
	Workspaces  json.RawMessage `json:"workspaces,omitempty"`
	Instances   json.RawMessage `json:"instances,omitempty"`
}

// WorkspaceInventory is what a proxy has on its disk.
func WorkspaceInventory(proxyID, inventoryID, capturedAt string, workspaces json.RawMessage) []byte {
	return frame(inventory{Type: "workspace_inventory", ProxyID: proxyID, InventoryID: inventoryID, CapturedAt: capturedAt, Workspaces: workspaces})
}

// SandboxInventory is what a proxy has running.
func SandboxInventory(proxyID, inventoryID, capturedAt string, instances json.RawMessage) []byte {
	return frame(inventory{Type: "sandbox_inventory", ProxyID: proxyID, InventoryID: inventoryID, CapturedAt: capturedAt, Instances: instances})
}

// orNull is for members that the contract wants present and null rather than empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// frame encodes a hint. It is nil, which is not published, when a part that an agent sent is no JSON.
func frame(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
