package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/signed"
	"aqueduct/internal/secretfile"
	"aqueduct/store"
)

// registry holds which tools exist: rows of the store behind a short cache, and the secrets of the file's tools.
type registry struct {
	store   store.Store
	servers []string // MCP servers, whose names begin the names of their tools
	own     []store.Tool
	cache   toolCache

	mu      sync.Mutex
	secrets map[string]signed.Secret // of the file's tools, by name
}

// load registers the tools of a file for every tenant, and removes those that an earlier file had and this one has not:
// a tool that was taken out of the file must not stay callable. Nor must one of an MCP server that is not named any more.
// All replicas read the same file at their start; whichever is first changes the rows, and the others find them as
// they want them.
func (g *registry) load(ctx context.Context, list []Definition, checkURL func(string) error) error {
	defer g.cache.invalidate()
	if err := g.loadSecrets(list); err != nil {
		return err
	}
	return g.store.InTx(ctx, func(tx store.Tx) error {
		named := make(map[string]bool, len(list))
		for _, d := range list {
			t, err := d.Tool("", store.ToolFromFile, checkURL)
			if err == nil {
				err = g.mayBeNamed(t.Name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			named[d.Name] = true
			if err := keepChanged(ctx, tx, t); err != nil {
				return err
			}
		}
		for _, t := range g.own {
			named[t.Name] = true
			if err := keepChanged(ctx, tx, t); err != nil {
				return err
			}
		}
		return removeTools(ctx, tx, func(t store.Tool) bool {
			server, ok := MCPServer(t)
			return (t.Source == store.ToolFromFile || t.Source == store.ToolFromServer) && !named[t.Name] || ok && !slices.Contains(g.servers, server)
		})
	})
}

// publish keeps the tools that an MCP server has now and removes its others. Servers of the same flags publish the same, so
// whichever is first changes the rows.
func (g *registry) publish(ctx context.Context, server string, list []store.Tool) error {
	defer g.cache.invalidate()
	return g.store.InTx(ctx, func(tx store.Tx) error {
		before, err := toolsOf(ctx, tx, server)
		if err != nil {
			return err
		}
		has := make(map[string]bool, len(list))
		for _, t := range list {
			has[t.Name] = true
			if was, ok := before[t.Name]; ok && same(was, t) {
				continue
			}
			if err := tx.UpsertTool(ctx, t); err != nil { // pinned audits it
				return err
			}
		}
		if err := removeTools(ctx, tx, func(t store.Tool) bool {
			of, ok := MCPServer(t)
			return ok && of == server && !has[t.Name]
		}); err != nil {
			return err
		}
		after, err := toolsOf(ctx, tx, server) // as they are kept: masked
		if err != nil {
			return err
		}
		return pinned(ctx, tx, server, before, after)
	})
}

// mcpScheme begins the Endpoint of a tool of an MCP server.
const mcpScheme = "mcp:"

// MCPEndpoint is the Endpoint of the tools of an MCP server.
func MCPEndpoint(server string) string { return mcpScheme + server }

// MCPServer is the MCP server whose tool it is; false for a tool of none.
func MCPServer(t store.Tool) (server string, ok bool) {
	if t.Source != store.ToolFromMCP {
		return "", false
	}
	return strings.CutPrefix(t.Endpoint, mcpScheme)
}

// mayBeNamed refuses the names of MCP servers' tools. A tool that had one would be called where that one is meant.
func (g *registry) mayBeNamed(name string) error {
	server, _, ok := strings.Cut(name, ".")
	if ok && slices.Contains(g.servers, server) {
		return fmt.Errorf("%w: the names that begin with %s. are those of the MCP server %s", ErrDefinition, server, server)
	}
	return nil
}

// keepChanged writes a tool of all tenants if it is not what is kept. Every start reads the file and asks the servers; only
// a change is audited.
func keepChanged(ctx context.Context, tx store.Tx, t store.Tool) error {
	before, err := tx.ToolOf(ctx, store.System(), "", t.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && same(before, t) {
		return nil
	}
	return keepTool(ctx, tx, audit.Nobody(audit.AllTenants), t)
}

// same reports whether two rows are the same tool.
func same(a, b store.Tool) bool {
	return a.Kind == b.Kind && a.Endpoint == b.Endpoint && bytes.Equal(a.Schema, b.Schema) && bytes.Equal(a.Policy, b.Policy) &&
		bytes.Equal(a.Metadata, b.Metadata) && a.Timeout == b.Timeout && a.OnFailure == b.OnFailure && a.Source == b.Source
}

// keepTool writes a tool's row, and the audit of who registered it.
func keepTool(ctx context.Context, tx store.Tx, who store.Principal, t store.Tool) error {
	if err := tx.UpsertTool(ctx, t); err != nil {
		return err
	}
	return auditTool(ctx, tx, who, audit.ToolRegistered, t.Name, map[string]string{"kind": string(t.Kind), "source": t.Source, "endpoint": t.Endpoint})
}

// auditTool comes behind the tool's row: an audit entry holds up every other transaction that appends one.
func auditTool(ctx context.Context, tx store.Tx, who store.Principal, action, tool string, details any) error {
	return audit.AppendAt(ctx, tx, who, action, audit.OfTool(tool), details, time.Now())
}

// removeTools removes the tools of all tenants that are gone.
func removeTools(ctx context.Context, tx store.Tx, gone func(store.Tool) bool) error {
	return eachShared(ctx, tx, func(t store.Tool) error {
		if !gone(t) {
			return nil
		}
		if _, err := tx.DeleteTool(ctx, "", t.Name); err != nil {
			return err
		}
		return auditTool(ctx, tx, audit.Nobody(audit.AllTenants), audit.ToolRemoved, t.Name, nil)
	})
}

// eachShared calls do for each tool of all tenants. They are listed before those of one tenant, so it ends at the first row that
// has a tenant.
func eachShared(ctx context.Context, r store.Reader, do func(store.Tool) error) error {
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		rows, err := r.Tools(ctx, store.System(), page)
		if err != nil {
			return err
		}
		for _, t := range rows {
			if t.Tenant != "" {
				return nil
			}
			if err := do(t); err != nil {
				return err
			}
		}
		if len(rows) < page.Size() {
			return nil
		}
		page.After = "/" + rows[len(rows)-1].Name // a position is tenant, slash and name
	}
}

// register keeps one tool of a tenant. The cache is dropped behind the commit, and a read that began before it is not
// put in (toolCache.tool).
func (g *registry) register(ctx context.Context, who store.Principal, t store.Tool) error {
	if err := g.mayBeNamed(t.Name); err != nil {
		return err
	}
	defer g.cache.invalidate()
	return g.store.InTx(ctx, func(tx store.Tx) error { return keepTool(ctx, tx, who, t) })
}

// unregister removes a tenant's own tool. Calls of a server tool that are approved already fail when they
// are claimed (executor.endUnregistered).
func (g *registry) unregister(ctx context.Context, who store.Principal, name string) error {
	defer g.cache.invalidate()
	return g.store.InTx(ctx, func(tx store.Tx) error {
		ok, err := tx.DeleteTool(ctx, who.Tenant, name)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return auditTool(ctx, tx, who, audit.ToolRemoved, name, nil)
	})
}

// loadSecrets reads the secrets of a file's tools. They stay in memory and are never written to the database.
func (g *registry) loadSecrets(list []Definition) error {
	secrets := make(map[string]signed.Secret)
	for _, d := range list {
		if d.SecretFile == "" {
			continue
		}
		secret, err := secretfile.Read(string(d.SecretFile))
		if err != nil {
			return fmt.Errorf("%s: secret_file: %w", d.Name, err)
		}
		if len(secret) < signed.MinSecret {
			return fmt.Errorf("%s: secret_file: the secret must have at least %d characters", d.Name, signed.MinSecret)
		}
		secrets[d.Name] = signed.Secret(secret)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.secrets = secrets
	return nil
}

// secretOf is the secret that calls of a tool are signed with; "" for a tool without one. A tenant's own tool of the same
// name is another tool at another address: signing its calls with this secret would let it replay them.
func (g *registry) secretOf(tool store.Tool) signed.Secret {
	if tool.Source != store.ToolFromFile || tool.Tenant != "" {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.secrets[tool.Name]
}
