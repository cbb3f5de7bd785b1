package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/store"
)

// Controller steers agents that run elsewhere, and the places they run in.
// The gateway implements it. It is an interface because the engine must not know of proxies, and absent where the
// server has no gateway.
type Controller interface {
	// Control does one thing to a Session's agent and returns when it is done. Its error is
	// a *fault.Error, or ctx's.
	Control(ctx context.Context, sessionID string, c Control) error
	// Ready reports whether Control could act now. Its error is the one with which Control would fail before it calls the
	// agent. A person is asked about a change only if the change is possible.
	Ready(ctx context.Context, sessionID string, c Control) error
	// Sandbox does one thing to the surroundings of a proxy's agents.
	Sandbox(ctx context.Context, proxyID string, c SandboxControl) (SandboxResult, error)
	// Inventory compares what a proxy last listed with what is known of it here.
	Inventory(ctx context.Context, proxyID string) (Inventory, error)
	// Prune has a proxy remove what no Session of ours accounts for.
	Prune(ctx context.Context, proxyID string, dryRun bool) (SandboxResult, error)
	// Settings are what a Session's agent last reported to be set to, where that may not be in
	// the log yet: between Turns it waits for the next.
	Settings(sessionID string) Settings
	// Remove forgets a proxy that has left, and where the agents of its Sessions ran. Its error is a *fault.Error when it
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

// Settings is what an agent is set to. A zero member was not reported.
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
	CapturedAt time.Time // zero: it has not listed yet
	Instances  []InventoryItem
	Workspaces []InventoryItem
	// What the proxy itself lists as missing, or was deleted since its last list, in its own words.
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

// Codes of ControlErrors.
const (
	ControlRejected    = "control_rejected"    // a person had to approve it, and did not
	ControlOffline     = "agent_offline"       // its proxy is not connected
	ControlNoAgent     = "no_agent_running"    // the Session has none now
	ControlUnsupported = "control_unsupported" // the agent does not know how
	ControlNotOffered  = "control_not_offered" // the agent does not offer it
	ControlFailed      = "control_failed"      // the agent refused
	ControlTimeout     = "control_timeout"     // it did not answer in time
	ControlUnknown     = "proxy_unknown"       // there is no such proxy
	ControlConnected   = "proxy_connected"     // it has to leave first
)

// ProxyRegistry keeps the acp-proxies and the sandbox instances their agents run in. It reads in the System scope: who
// shows a row to a caller authorizes that caller first.
type ProxyRegistry interface {
	Proxy(ctx context.Context, id string) (store.Proxy, error)
	Proxies(ctx context.Context) ([]store.Proxy, error)
	Instance(ctx context.Context, sessionID string) (store.SandboxInstance, error)
	InstancesOf(ctx context.Context, proxyID string) ([]store.SandboxInstance, error)
	// Enrol uses a bootstrap token and inserts the proxy it was issued for, in one transaction. It returns ErrTokenUsed,
	// ErrTokenBound, ErrProxyKnown or ErrAgentTaken if it refuses.
	Enrol(ctx context.Context, e Enrolment, now time.Time) error
	// Audit writes an action on a proxy, or the refusal of one, into the audit log.
	Audit(ctx context.Context, who store.Principal, action, proxyID string, details any) error
}

// Reasons why a proxy is not enrolled.
var (
	ErrTokenUsed = errors.New("bridge: the bootstrap token was used before")
	// ErrTokenBound reports that the reusable token is bound to another proxy, the first that used it.
	ErrTokenBound = errors.New("bridge: the bootstrap token is another proxy's")
	ErrProxyKnown = errors.New("bridge: a proxy of that id is known")
	ErrAgentTaken = errors.New("bridge: an agent of that id is registered")
)

// Enrolment is the proxy that a bootstrap token was issued for.
type Enrolment struct {
	TokenID   string
	Reusable  bool // the first proxy that used the token may use it again
	Named     bool // the token names its proxy
	ExpiresAt time.Time
	ProxyID   string
	Name      string
	AgentID   string
	Remote    string // the address of the request, for the audit
}
