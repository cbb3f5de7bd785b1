package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/signed"
	"aqueduct/internal/secretfile"
	"aqueduct/store"
)

// registry holds which tools exist: rows of the store behind a short cache, and the secrets of the file's tools.
type registry struct {
	store store.Store
	cache toolCache

	mu      sync.Mutex
	secrets map[string]signed.Secret // of the file's tools, by name
}

// load registers the tools of a file for every tenant, and removes those that an earlier file had and this one has not:
// a tool that was taken out of the file must not stay callable.
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
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			named[d.Name] = true
			before, err := tx.ToolOf(ctx, store.System(), "", t.Name)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && same(before, t) {
				continue // every start reads the file; only a change is audited
			}
			if err := keepTool(ctx, tx, audit.Nobody(audit.AllTenants), t); err != nil {
				return err
			}
		}
		return removeUnnamed(ctx, tx, named)
	})
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

// removeUnnamed removes the tools that came from a file and are not named. The tools of all tenants are listed before
// those of one, so it ends at the first row that has a tenant.
func removeUnnamed(ctx context.Context, tx store.Tx, named map[string]bool) error {
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		rows, err := tx.Tools(ctx, store.System(), page)
		if err != nil {
			return err
		}
		for _, t := range rows {
			if t.Tenant != "" {
				return nil
			}
			if t.Source == store.ToolFromFile && !named[t.Name] {
				if _, err := tx.DeleteTool(ctx, "", t.Name); err != nil {
					return err
				}
				if err := auditTool(ctx, tx, audit.Nobody(audit.AllTenants), audit.ToolRemoved, t.Name, nil); err != nil {
					return err
				}
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
		secret, err := secretfile.Read(d.SecretFile)
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
