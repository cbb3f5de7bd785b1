package store

import (
	"context"
	"strings"
	"time"
)

// Agent is an entry of the directory: who an id belongs to, and how the agent of that id is reached. Agents of flags and
// proxies have entries too, without an endpoint: what reaches them is the program's, and the row only holds the id.
type Agent struct {
	ID     string // of the row; AgentID is the id by which its users name it
	Tenant string // whose users may talk to it; "" is everybody
	Owner  string // the user who registered it; "" is the operator
	Source AgentSource
	// Protocol is how the agent is spoken to: AgentHTTP, AgentAGUI or AgentACP.
	Protocol     string
	Name         string // for people
	Endpoint     string // of an AgentFromAPI, without /invoke
	Capabilities []byte // JSON, as it was registered
	// Auth is what is sent to the agent with each call, encrypted with the key AuthKID; nil is none.
	AuthKID         string
	Auth            []byte
	LastHeartbeatAt time.Time // zero: never
	RegisteredAt    time.Time
	UpdatedAt       time.Time // of everything but the heartbeat
}

// agentKeyMark begins the part of a row's id that names the tenant. No id of an agent has it, and it is less than all that an
// id may have, so that rows are in the order of the agents' ids.
const agentKeyMark = "!"

// AgentKey is the id of the row of a registered agent whose own id another tenant's row has. Where no other has it, the row's
// id is the agent's: servers of earlier versions know no other, and keep working with the same rows.
func AgentKey(tenant, id string) string { return id + agentKeyMark + tenant }

// AgentID is the agent's id in the id of its row.
func AgentID(key string) string {
	id, _, _ := strings.Cut(key, agentKeyMark)
	return id
}

// AfterAgent is the position after all rows of agents of that id, for a Page.
func AfterAgent(id string) string {
	if id == "" {
		return ""
	}
	return id + "\"" // the character after the mark
}

// AgentSource is where an Agent was named.
type AgentSource string

// The sources of Agents.
const (
	AgentFromConfig AgentSource = "config" // the operator's flags
	AgentFromProxy  AgentSource = "proxy"  // an acp-proxy's registration
	AgentFromAPI    AgentSource = "api"    // POST /v1/agents/register
)

// The protocols of Agents.
const (
	AgentHTTP = "http" // POST /invoke, answered by SSE
	AgentAGUI = "agui" // AG-UI: RunAgentInput, answered by SSE
	AgentACP  = "acp"  // behind an acp-proxy
)

// AgentReader reads the directory. A Scope sees the Agents of its tenant and those of everybody.
type AgentReader interface {
	Agent(ctx context.Context, in Scope, id string) (Agent, error)
	// Agents lists them by id.
	Agents(ctx context.Context, in Scope, page Page) ([]Agent, error)
	// CountAgents counts those that programs registered, up to most: in the tenant, or by the user, that the Scope is.
	CountAgents(ctx context.Context, in Scope, most int) (int, error)
	// AgentsStamp changes with every change of the directory but heartbeats. It costs less than reading it. Only a Scope
	// that sees everything sees it.
	AgentsStamp(ctx context.Context, in Scope) (AgentsStamp, error)
}

// AgentsStamp counts the registrations, changes and removals of Agents. It is never 0.
type AgentsStamp int64

// AgentTx changes the directory.
type AgentTx interface {
	// ClaimAgent keeps an Agent of an id that is free, whatever source it comes from; false, and nothing changes, where the id is taken. Of many at once
	// one wins.
	ClaimAgent(ctx context.Context, a Agent) (bool, error)
	// UpdateAgent writes the row of an id that is there, but for RegisteredAt and LastHeartbeatAt. False when there is none.
	UpdateAgent(ctx context.Context, a Agent) (bool, error)
	// BeatAgent notes a heartbeat. False when there is no Agent of that id.
	BeatAgent(ctx context.Context, id string, at time.Time) (bool, error)
	// DeleteAgent is false when there is none of that id and source.
	DeleteAgent(ctx context.Context, id string, source AgentSource) (bool, error)
}
