package store

import (
	"context"
	"time"
)

// Tool is something agents can have run through us.
type Tool struct {
	Name      string
	Tenant    string       // "" means every tenant that has none of its own by this name
	Kind      ToolCallKind // KindServer or KindClient
	Endpoint  string       // of a server tool: a URL, or which MCP server
	Schema    []byte       // JSON Schema of the arguments
	Policy    []byte       // JSON: its own rules
	Metadata  []byte       // JSON: description and the like
	Timeout   time.Duration
	OnFailure OnFailure
	Source    string // ToolFromFile, ToolFromAPI, ToolFromMCP or ToolFromServer
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Where a Tool was registered.
const (
	ToolFromFile = "file"
	ToolFromAPI  = "api"
	ToolFromMCP  = "mcp" // an MCP server offers it
	// ToolFromServer is a tool of this server's own, which no agent calls.
	ToolFromServer = "server"
)

// ToolPin is a confirmed definition of an MCP server's tool: calls of it are not asked about for being new. The first list of
// a server confirms its tools, and people confirm the others.
type ToolPin struct {
	Tool      string // NAME.TOOL; "NAME." is the server itself, from its first list on
	SHA256    string // of the definition
	Tenant    string // "" is every tenant
	User      string // "" is every user of the tenant
	By        string // who confirmed it; "" is the server's first list
	CreatedAt time.Time
}

// ToolReader reads Tools. A Scope sees those of its tenant and those of every tenant.
type ToolReader interface {
	// Tool is the one the Scope's tenant means by the name. A Scope that sees everything
	// has no tenant: it gets the one of every tenant; see ToolOf.
	Tool(ctx context.Context, in Scope, name string) (Tool, error)
	// ToolOf is the one the tenant means by the name, if the Scope sees that tenant.
	ToolOf(ctx context.Context, in Scope, tenant, name string) (Tool, error)
	// Tools lists by name what the Scope's tenant can use; a page begins at a name. A Scope
	// that sees everything gets those of all tenants, by tenant and name, and its page
	// begins at "tenant/name".
	Tools(ctx context.Context, in Scope, page Page) ([]Tool, error)
	// ToolPinned reports whether the definition is confirmed for the user of the tenant. Only a Scope that sees everything sees
	// any.
	ToolPinned(ctx context.Context, in Scope, p ToolPin) (bool, error)
}

// ToolTx changes Tools.
type ToolTx interface {
	// UpsertTool writes the whole row but keeps the CreatedAt of one that is there.
	UpsertTool(ctx context.Context, t Tool) error
	// DeleteTool is false when there is none. It takes the tenant's own alone.
	DeleteTool(ctx context.Context, tenant, name string) (bool, error)
	// PinTool keeps a confirmed definition. It is false when there is that one already.
	PinTool(ctx context.Context, p ToolPin) (bool, error)
}
