package bridge

import (
	"context"
	"encoding/json"
	"time"
)

// Controller steers agents that run elsewhere, and the places they run in.
type Controller interface {
	// Control does one thing to a Session's agent and returns when it is done. Its error is
	// a *ControlError, or ctx's.
	Control(ctx context.Context, sessionID string, c Control) error
	// Sandbox does one thing to the surroundings of a proxy's agents.
	Sandbox(ctx context.Context, proxyID string, c SandboxControl) (SandboxResult, error)
	// Inventory compares what a proxy last listed with what is known of it here.
	Inventory(ctx context.Context, proxyID string) (Inventory, error)
	// Prune has a proxy remove what no Session of ours accounts for.
	Prune(ctx context.Context, proxyID string, dryRun bool) (SandboxResult, error)
	// Settings are what a Session's agent last told to be set to, where that may not be in
	// the log yet: between Turns it waits for the next.
	Settings(sessionID string) Settings
	// Remove forgets a proxy that has left, and where the agents of its Sessions ran. Its error is a *ControlError when it
	// is connected or unknown.
	Remove(ctx context.Context, proxyID string) error
	// Place is where a Session's agent runs: the proxy, and the folder on its host as far as that is known. Both are "" for
	// an agent that is behind no proxy.
	Place(ctx context.Context, sessionID string) (proxyID, folder string, err error)
	// Linked tells whether a proxy is connected to this replica, and how many Turns it works on.
	Linked(proxyID string) (linked bool, busy int)
}

// ControlAction is what a Control does.
type ControlAction string

// The actions of a Control.
const (
	ControlCancel    ControlAction = "cancel"
	ControlSetMode   ControlAction = "set_mode"
	ControlSetModel  ControlAction = "set_model"
	ControlSetOption ControlAction = "set_config_option"
	ControlClose     ControlAction = "close"
)

// Control is one thing to do to a Session's agent.
type Control struct {
	Action ControlAction
	Option string          // the id of the option of set_config_option
	Value  json.RawMessage // the mode's or model's id, or the option's value: a text or a boolean
}

// Settings is what an agent is set to. A zero member was not heard.
type Settings struct {
	ModeID        string
	ModelID       string
	ConfigOptions json.RawMessage
}

// SandboxControl is one thing to do to an agent's surroundings; the members are those of
// the message of that name on /ws/agent.
type SandboxControl struct {
	Action         string
	SessionID      string
	InstanceName   string
	Image          string
	Branch         string
	Remote         string
	Cwd            string
	Timeout        time.Duration
	DryRun         bool
	RemoveOrphans  bool
	RemoveWork     bool // workspaces too
	MaxDeleteCount int
}

// SandboxResult is what the proxy answered.
type SandboxResult struct {
	OK      bool
	Error   string
	Stdout  string
	Stderr  string
	Code    *int
	Signal  string
	Status  string
	Details json.RawMessage
}

// Inventory is what a proxy has beside what we think it has.
type Inventory struct {
	CapturedAt time.Time // zero: it has not told yet
	Instances  []InventoryItem
	Workspaces []InventoryItem
	// What the proxy itself says is missing, or was deleted since its last list, in its own words.
	MissingInstances  []json.RawMessage
	DeletedInstances  []json.RawMessage
	DeletedWorkspaces []json.RawMessage
}

// InventoryItem is one instance or workspace. Unknown ones are the proxy's alone, missing
// ones ours alone.
type InventoryItem struct {
	InstanceName string
	SessionID    string
	Status       string
	Path         string
	LastSeen     time.Time // of an instance; zero when the proxy did not say
	ModifiedAt   time.Time // of a workspace; zero when the proxy did not say
	SizeBytes    *int64    // of a workspace; nil when the proxy did not say
	Gone         bool      // a workspace that the proxy knows of and that is not there
	Unknown      bool
	Missing      bool
}

// ControlError is why a Control was not done.
type ControlError struct {
	Code    string
	Message string
}

func (e *ControlError) Error() string { return e.Code + ": " + e.Message }

// Codes of ControlErrors.
const (
	ControlOffline     = "agent_offline"       // its proxy is not connected
	ControlNoAgent     = "no_agent_running"    // the Session has none now
	ControlUnsupported = "control_unsupported" // the agent does not know how
	ControlNotOffered  = "control_not_offered" // the agent does not offer it
	ControlFailed      = "control_failed"      // it said no
	ControlTimeout     = "control_timeout"     // it did not answer in time
	ControlUnknown     = "proxy_unknown"       // there is no such proxy
	ControlConnected   = "proxy_connected"     // it has to leave first
)
