package store

import (
	"context"
	"time"
)

// ProxyStatus is whether a proxy is connected.
type ProxyStatus string

// The states of a Proxy.
const (
	ProxyOnline  ProxyStatus = "online"
	ProxyOffline ProxyStatus = "offline"
)

// Proxy is an acp-proxy that has registered at least once.
type Proxy struct {
	ID            string // its own, which its token is for
	Name          string
	AgentID       string // the Agent it serves
	Capabilities  []byte // JSON, as it announced them
	MaxConcurrent int    // agents at a time; 0 when it named none
	Status        ProxyStatus
	RegisteredAt  time.Time // first
	ConnectedAt   time.Time
	LastSeen      time.Time
	LastError     string
	TokenEnds     time.Time // when the token of its last link ends; zero when that is not known
	Replica       string    // that wrote the row: it holds the link of a Proxy that is online, while it lives
	Sandboxes     []byte    // its last sandbox_inventory, JSON
	Workspaces    []byte    // its last workspace_inventory, JSON
}

// SandboxInstance is where the agent of a Session runs. Its environment is not kept.
type SandboxInstance struct {
	SessionID    string // run_id on /ws/agent: the Session's, but for an Agent beside the thread's own (OfSession)
	OfSession    string // the Session, where SessionID is an id of the instance's own
	AgentID      string // whose instance it is, where OfSession is set
	ProxyID      string
	InstanceName string
	ACPSessionID string // the agent's own id of the conversation
	Status       string // creating, running, stopped, missing, error, closed
	Provider     string
	Runtime      string
	LastSeen     time.Time
	LastError    string
	Transport    []byte // JSON: the last transport_connected or transport_disconnected
	Init         []byte // JSON: the last init_result
	TokenHash    []byte // of the token its agent calls with; nil when it has none
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// BootstrapUse is a bootstrap token that has enrolled its proxy. It is kept until the token would have ended by itself.
type BootstrapUse struct {
	TokenID   string
	ProxyID   string
	UsedAt    time.Time
	ExpiresAt time.Time
}

// ProxyLink is a link of a Proxy to a replica that lives.
type ProxyLink struct{ ProxyID, AgentID, Replica string }

// ProxyReader reads Proxies and SandboxInstances. Proxies belong to no user: only a
// Scope that sees everything sees them. An instance is seen with its Session.
type ProxyReader interface {
	Proxy(ctx context.Context, in Scope, id string) (Proxy, error)
	// Proxies are all, in the order they registered first.
	Proxies(ctx context.Context, in Scope) ([]Proxy, error)
	// ProxyLinks are those of all replicas that live.
	ProxyLinks(ctx context.Context, in Scope) ([]ProxyLink, error)
	SandboxInstance(ctx context.Context, in Scope, sessionID string) (SandboxInstance, error)
	// SandboxInstancesOf lists a proxy's, newest Session first.
	SandboxInstancesOf(ctx context.Context, in Scope, proxyID string, page Page) ([]SandboxInstance, error)
}

// ProxyTx writes them. Each write is a whole row: a zero member empties its column.
type ProxyTx interface {
	// UpsertProxy keeps the RegisteredAt of a row that is there. A Proxy that is offline is not written over one that is
	// online at another replica which lives: it has moved there.
	UpsertProxy(ctx context.Context, p Proxy) error
	// InsertProxy keeps a Proxy of an id that is new; false, and nothing changes, where the id is known.
	InsertProxy(ctx context.Context, p Proxy) (bool, error)
	// BootstrapProxy returns the proxy that used a bootstrap token first, or ErrNotFound.
	BootstrapProxy(ctx context.Context, tokenID string) (string, error)
	// UseBootstrap notes that a bootstrap token was used; false when it was before. Of many at once one wins.
	UseBootstrap(ctx context.Context, u BootstrapUse) (bool, error)
	// DropBootstrapUses removes those of tokens that ended before a time.
	DropBootstrapUses(ctx context.Context, before time.Time) error
	// DeleteProxy removes a Proxy and its SandboxInstances. False when there was none.
	DeleteProxy(ctx context.Context, id string) (bool, error)
	// UpsertSandboxInstance keeps the CreatedAt of a row that is there.
	UpsertSandboxInstance(ctx context.Context, i SandboxInstance) error
	// RevokeInstanceTokens empties the TokenHash of a proxy's instances whose UpdatedAt lies before a time.
	RevokeInstanceTokens(ctx context.Context, proxyID string, before time.Time) error
}
