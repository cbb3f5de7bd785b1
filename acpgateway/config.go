package acpgateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/bridge/livefeed"
	"aqueduct/bridge/redact"
	"aqueduct/store"
)

// Config is what a Gateway needs.
type Config struct {
	// Authenticate identifies the proxy of a request's token.
	Authenticate func(*http.Request) (Identity, error)
	// Watch ends the context when the proxy's token is revoked; release must be called. nil watches nothing.
	Watch     func(ctx context.Context, who Identity) (watched context.Context, release func())
	Registry  *Registry
	Directory *bridge.Directory
	// Replica is the id of this one. Own are the proxies that are started with it, and their agents.
	Replica string
	Own     map[string]string
	// NotifyActivity notifies the bridge that an agent, by its instance (bridge.Call), sends output that no Turn reads.
	NotifyActivity func(ctx context.Context, instanceID string) error
	// Note keeps Records; kept is called after the commit.
	Note func(ctx context.Context, records []store.Record, kept func()) error
	// Stalled reports that the store accepts no writes at present.
	Stalled func() bool
	Hints   *livefeed.Hub
	Agents  map[string]AgentConfig
	Order   []string // of those of them that are listed before any that a proxy brings
	// Hash binds arguments to what is decided about them. Its Filter takes secrets out of what is put on record in pieces.
	Hash redact.Hasher
	// BaseURL is where agents reach this server. "" keeps it and their tokens from them.
	BaseURL string
	Limits  Limits
	Meter   Meter
	Logger  *slog.Logger
}

// Identity is whom a proxy's token names.
type Identity struct {
	ProxyID string
	AgentID string // "" when it does not say; the proxy's id then
	Name    string
	// CredentialID and KeyID name the token, and the key that signed it, for Config.Watch; "" for one that
	// cannot be revoked.
	CredentialID, KeyID string
	Until               time.Time // when the token ends; zero when it renews itself, as that of a proxy of this process
}

// AgentConfig is what a proxy is sent about one Agent.
type AgentConfig struct {
	Cwd           string
	Env           map[string]string // given to the agent, never kept
	InitScript    string
	InitTimeout   time.Duration
	AgentInputs   *wire.AgentInputs
	Keepalive     time.Duration
	SystemContext string
	// PromptCapabilities are what its prompts may hold beside text and links, where its proxy does
	// not say.
	PromptCapabilities wire.PromptCapabilities
	NoToken            bool // it gets neither our address nor a token to call us with
}

// Limits are the gateway's settings. The zero value of a member means its default.
type Limits struct {
	Open    time.Duration // acp_open until acp_opened
	Prompt  time.Duration // prompt_send until prompt_result, open permissions apart
	Control time.Duration
	Grace   time.Duration // a cut link may come back within it, and the Turn goes on
	// Silence is how long an agent that has a prompt may say nothing at all while no tool runs and
	// no person is asked. Negative: as long as the prompt may take.
	Silence time.Duration
	// Idle is how long a Session's agent may rest before it is closed.
	Idle time.Duration
	// Heartbeat is how often a proxy is expected to say something; after three it is gone.
	Heartbeat time.Duration
	// MergeTime and MergeChars are when chunks of one message that are merged into one record are put on record.
	MergeTime  time.Duration
	MergeChars int
}

const (
	registerWait = 10 * time.Second // from the upgrade to register_agent
	writeWait    = 10 * time.Second // one write to a proxy
	// frameBytes bounds one frame of a proxy's (DESIGN §7).
	frameBytes = 16 << 20
	// runBytes bounds a run_id (contract facts §3.3), which is remembered.
	runBytes = 200
	// cancelWait is how long a cancelled prompt may take to end before its agent is closed;
	// the next prompt would wait behind it.
	cancelWait = 10 * time.Second
	// orphanWait is how long a prompt that no Turn reads is left alone: its Turn is
	// either taken up again at once, or has failed.
	orphanWait = 10 * time.Second
	// exitWait is how long prompt_result may come after acp_exit, which contains less.
	exitWait = 5 * time.Second
	// adoptWait is how long a proxy that is back may take to show that it still has a
	// prompt, when it cannot list them.
	adoptWait = 5 * time.Second
	// queueBytes and queueFrames bound what one Session has waiting. A proxy that counts
	// its frames stops long before; an old one is stopped by them.
	queueBytes  = 96 << 20
	queueFrames = 1 << 17
	// silentFrames is how much may wait without a Turn to read it.
	silentFrames = 1024
	contextBytes = 32 << 10 // of a conversation that a new agent session is sent
	// closedWait is how long an agent that was closed may take to be gone: opened in between
	// it could be the dying one that answers.
	closedWait = 5 * time.Second
)

// A negative value is kept: it switches the limit off where that has a meaning (Silence).
func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&l.Open, 300 * time.Second}, {&l.Prompt, 3600 * time.Second}, {&l.Control, 60 * time.Second},
		{&l.Grace, 45 * time.Second}, {&l.Silence, 300 * time.Second}, {&l.Idle, 1800 * time.Second}, {&l.Heartbeat, 30 * time.Second},
		{&l.MergeTime, mergeTime},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if l.MergeChars == 0 {
		l.MergeChars = mergeChars
	}
	return l
}

// Meter receives counts for the metrics. Members may be nil; they must be quick.
// The gateway does not import the metrics' library; serve connects the two.
type Meter struct {
	Linked  func(proxies int)
	Frame   func(kind string)   // a frame that was taken, by type
	Refused func(reason string) // one that was not
}

// Reasons a frame is refused for.
const (
	refusedToken        = "token"
	refusedMalformed    = "malformed"
	refusedUnknown      = "unknown_type"
	refusedUnregistered = "unregistered"
	refusedOccupied     = "occupied_id" // of a second proxy under the id of one that is there
	refusedForeign      = "foreign_run" // another proxy's run, or an unknown one
	refusedUnexpected   = "unexpected"  // an answer to nothing
	refusedTooMuch      = "too_much"
)

// Codes of failures of this package; the server's table documents them.
const (
	CodeOffline     = "agent_offline"
	CodeBusy        = "agent_busy"
	CodeLost        = "agent_link_lost"
	CodeRestarted   = "agent_proxy_restarted"
	CodeOpenTimeout = "agent_open_timeout"
	CodeTimeout     = "agent_prompt_timeout"
	CodeSilent      = "agent_silent"
	CodeOverloaded  = "overloaded"
)

// emptyInputs is the least that old proxies open with.
func emptyInputs() *wire.AgentInputs {
	return &wire.AgentInputs{Version: 1, Items: []wire.AgentInput{}}
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("acpgateway: " + err.Error()) // our own types always can be written
	}
	return raw
}
