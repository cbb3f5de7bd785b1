package wire

import "encoding/json"

// Actions of sandbox_control.
const (
	ActionInspect         = "inspect"
	ActionEnsureRunning   = "ensure_running"
	ActionStop            = "stop"
	ActionRemove          = "remove"
	ActionPruneOrphans    = "prune_orphans"
	ActionGC              = "gc"
	ActionRemoveWorkspace = "remove_workspace"
	ActionReportInventory = "report_inventory"
	ActionRemoveImage     = "remove_image"
	ActionGitPush         = "git_push"
)

// SandboxControl asks for something to be done to a run's surroundings.
type SandboxControl struct {
	Action       string `json:"action"`
	RunID        string `json:"run_id,omitempty"`
	InstanceName string `json:"instance_name,omitempty"`
	RequestID    string `json:"request_id,omitempty"`
	Image        string `json:"image,omitempty"`
	// ExpectedInstances is empty where nothing is expected, and nil where the action takes none: a proxy must see the difference.
	ExpectedInstances []ExpectedInstance `json:"expected_instances,omitzero"`
	DryRun            bool               `json:"dry_run,omitempty"`
	GC                *GC                `json:"gc,omitempty"`
	Branch            string             `json:"branch,omitempty"`
	Remote            string             `json:"remote,omitempty"`
	Cwd               string             `json:"cwd,omitempty"`
	Env               map[string]string  `json:"env,omitempty"`
	TimeoutSeconds    int                `json:"timeout_seconds,omitempty"`
}

// Type implements Frame.
func (*SandboxControl) Type() string { return "sandbox_control" }

// ExpectedInstance is one the gateway knows of. Some ends send only its name.
type ExpectedInstance struct {
	InstanceName string `json:"instance_name"`
	RunID        string `json:"run_id,omitempty"`
}

// UnmarshalJSON takes an object or a name.
func (e *ExpectedInstance) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &e.InstanceName) == nil {
		return nil
	}
	type plain ExpectedInstance
	return json.Unmarshal(data, (*plain)(e))
}

// GC is how far a collection goes.
type GC struct {
	RemoveOrphans    bool `json:"remove_orphans,omitempty"`
	RemoveWorkspaces bool `json:"remove_workspaces,omitempty"`
	MaxDeleteCount   int  `json:"max_delete_count,omitempty"`
}

// SandboxControlResult answers it.
type SandboxControlResult struct {
	RunID        *string         `json:"run_id"`
	InstanceName *string         `json:"instance_name"`
	Action       string          `json:"action"`
	RequestID    *string         `json:"request_id"`
	OK           bool            `json:"ok"`
	Error        string          `json:"error,omitempty"`
	Stdout       string          `json:"stdout,omitempty"`
	Stderr       string          `json:"stderr,omitempty"`
	Code         *int            `json:"code,omitempty"`
	Signal       *string         `json:"signal,omitempty"`
	Status       string          `json:"status,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
}

// Type implements Frame.
func (*SandboxControlResult) Type() string { return "sandbox_control_result" }

// SandboxInventory lists a proxy's instances.
type SandboxInventory struct {
	InventoryID       string            `json:"inventory_id"`
	Provider          string            `json:"provider"`
	Runtime           *string           `json:"runtime"`
	CapturedAt        string            `json:"captured_at"`
	Instances         []SandboxInstance `json:"instances"`
	MissingInstances  []json.RawMessage `json:"missing_instances,omitempty"`
	DeletedInstances  []json.RawMessage `json:"deleted_instances,omitempty"`
	DeletedWorkspaces []json.RawMessage `json:"deleted_workspaces,omitempty"`
}

// Type implements Frame.
func (*SandboxInventory) Type() string { return "sandbox_inventory" }

// SandboxInstance is one of them: creating, running, stopped, missing or error.
type SandboxInstance struct {
	InstanceName string  `json:"instance_name"`
	RunID        *string `json:"run_id"`
	Status       string  `json:"status"`
	CreatedAt    *string `json:"created_at"`
	LastSeenAt   *string `json:"last_seen_at"`
}

// WorkspaceInventory lists a proxy's workspaces.
type WorkspaceInventory struct {
	InventoryID       string      `json:"inventory_id"`
	CapturedAt        string      `json:"captured_at"`
	WorkspaceProvider string      `json:"workspace_provider"`
	Workspaces        []Workspace `json:"workspaces"`
}

// Type implements Frame.
func (*WorkspaceInventory) Type() string { return "workspace_inventory" }

// Workspace is one workspace of a proxy. The proxy identifies it by its run, by its instance or by both, and may not know
// whether it exists.
type Workspace struct {
	WorkspaceProvider string  `json:"workspace_provider"`
	RunID             string  `json:"run_id"`
	InstanceName      string  `json:"instance_name"`
	HostPath          string  `json:"host_path"`
	GuestPath         string  `json:"guest_path"`
	Exists            *bool   `json:"exists"`
	MTime             *string `json:"mtime"`
	SizeBytes         *int64  `json:"size_bytes"`
}

// BranchCreated reports that a branch was pushed.
type BranchCreated struct {
	RunID  string `json:"run_id"`
	Branch string `json:"branch"`
}

// Type implements Frame.
func (*BranchCreated) Type() string { return "branch_created" }
