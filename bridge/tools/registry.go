package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// Definition is a tool as it is registered, by file or over the API.
type Definition struct {
	Name        string          `json:"name" yaml:"name"`
	Kind        string          `json:"kind" yaml:"kind"` // server_tool or client_tool
	Description string          `json:"description,omitempty" yaml:"description"`
	Endpoint    string          `json:"endpoint,omitempty" yaml:"endpoint"`
	Schema      json.RawMessage `json:"schema,omitempty" yaml:"-"`
	Policy      json.RawMessage `json:"policy,omitempty" yaml:"-"`
	TimeoutMS   int64           `json:"timeout_ms,omitempty" yaml:"timeout_ms"`
	OnFailure   store.OnFailure `json:"on_failure,omitempty" yaml:"on_failure"`
	// SecretFile holds the secret that calls are signed with. Only the operator's file may name one: over the API it would
	// have any file of this machine used as a key.
	SecretFile string `json:"secret_file,omitempty" yaml:"secret_file"`
}

// Kinds of tools on the wire (contract §2).
const (
	WireServer = "server_tool"
	WireClient = "client_tool"
)

// ErrDefinition is a definition that is not one.
var ErrDefinition = errors.New("tools: not a tool")

// toolName keeps out what would break a route, a header or a log line.
func toolName(name string) bool {
	return name != inbox.PermissionTool && regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(name)
}

// Tool checks a definition and gives its row. checkURL says whether an endpoint may be called.
func (d Definition) Tool(tenant, source string, checkURL func(string) error) (store.Tool, error) {
	wrong := func(format string, args ...any) (store.Tool, error) {
		return store.Tool{}, fmt.Errorf("%w: "+format, append([]any{ErrDefinition}, args...)...)
	}
	t := store.Tool{
		Name: d.Name, Tenant: tenant, Endpoint: d.Endpoint, Schema: d.Schema, Policy: d.Policy, OnFailure: d.OnFailure, Source: source,
		Timeout: time.Duration(d.TimeoutMS) * time.Millisecond, Metadata: mustJSON(map[string]string{"description": d.Description}),
	}
	switch {
	case !toolName(d.Name):
		return wrong("the name is 1 to 128 letters, digits, dots, underscores or hyphens, and not %s", inbox.PermissionTool)
	case d.Kind == WireServer:
		t.Kind = store.KindServer
	case d.Kind == WireClient:
		t.Kind = store.KindClient
	default:
		return wrong("kind is %s or %s", WireServer, WireClient)
	}
	if d.SecretFile != "" && (source != store.ToolFromFile || t.Kind != store.KindServer) {
		return wrong("secret_file is for server tools of --tools-file")
	}
	if t.Kind == store.KindServer {
		if err := checkURL(d.Endpoint); err != nil {
			return wrong("endpoint: %v", err)
		}
	}
	if d.OnFailure != "" && d.OnFailure != store.FailureReturns && d.OnFailure != store.FailureEndsRun {
		return wrong("on_failure is %s or %s", store.FailureReturns, store.FailureEndsRun)
	}
	if t.Timeout < 0 || t.Timeout > longestTimeout {
		return wrong("timeout_ms is at most %d", longestTimeout.Milliseconds())
	}
	if err := schema.Of(d.Schema).Compile(); err != nil {
		return store.Tool{}, fmt.Errorf("%w: schema: %w", ErrDefinition, err)
	}
	if err := checkOwn(d.Policy); err != nil {
		return wrong("policy: %v", err)
	}
	now := time.Now()
	t.CreatedAt, t.UpdatedAt = now, now
	return t, nil
}

func checkOwn(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	o, err := readOwn(raw)
	if err != nil {
		return errors.New("it has risk, verdict, reason, ttl (as in 30m), approvers, four_eyes, may_edit")
	}
	if err := o.Own.Check(); err != nil {
		return err
	}
	switch o.Risk {
	case "", policy.Low, policy.Medium, policy.High:
		return nil
	}
	return errors.New("risk is low, medium or high")
}

// ParseFile reads the tools of a file: YAML with a list under tools.
func ParseFile(raw []byte) ([]Definition, error) {
	var file struct {
		Tools []map[string]any `yaml:"tools"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	var list []Definition
	for i, entry := range file.Tools {
		body, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrDefinition, i+1, err)
		}
		var d Definition
		strict := json.NewDecoder(bytes.NewReader(body))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&d); err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrDefinition, i+1, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// Load registers the tools of a file for every tenant, and takes away those that stood in it
// before: what is not in the file any more nobody should be able to call.
func (s *Service) Load(ctx context.Context, list []Definition, checkURL func(string) error) error {
	defer s.shelf.sweep()
	if err := s.loadSecrets(list); err != nil {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
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
				continue // every start reads the file; only a change is a deed
			}
			if err := register(ctx, tx, audit.Nobody(audit.AllTenants), t); err != nil {
				return err
			}
		}
		return unload(ctx, tx, named)
	})
}

// same reports whether two rows are the same tool.
func same(a, b store.Tool) bool {
	return a.Kind == b.Kind && a.Endpoint == b.Endpoint && bytes.Equal(a.Schema, b.Schema) && bytes.Equal(a.Policy, b.Policy) &&
		bytes.Equal(a.Metadata, b.Metadata) && a.Timeout == b.Timeout && a.OnFailure == b.OnFailure && a.Source == b.Source
}

// register keeps a tool and who registered it.
func register(ctx context.Context, tx store.Tx, who store.Principal, t store.Tool) error {
	if err := tx.UpsertTool(ctx, t); err != nil {
		return err
	}
	return writeDeed(ctx, tx, who, audit.ToolRegistered, t.Name, map[string]string{"kind": string(t.Kind), "source": t.Source, "endpoint": t.Endpoint})
}

func writeDeed(ctx context.Context, tx store.Tx, who store.Principal, action, tool string, details any) error {
	return audit.AppendAt(ctx, tx, who, action, audit.OfTool(tool), details, time.Now())
}

// unload takes away the tools of files that are not named. Those of every tenant are listed
// first.
func unload(ctx context.Context, tx store.Tx, named map[string]bool) error {
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
				if err := writeDeed(ctx, tx, audit.Nobody(audit.AllTenants), audit.ToolRemoved, t.Name, nil); err != nil {
					return err
				}
			}
		}
		if len(rows) < page.Size() {
			return nil
		}
		page.After = "/" + rows[len(rows)-1].Name
	}
}

// Register keeps one tool of a tenant's.
func (s *Service) Register(ctx context.Context, who store.Principal, t store.Tool) error {
	defer s.shelf.sweep()
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error { return register(ctx, tx, who, t) })
}

// Unregister takes one away; store.ErrNotFound when the tenant has none of that name.
func (s *Service) Unregister(ctx context.Context, who store.Principal, name string) error {
	defer s.shelf.sweep()
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		ok, err := tx.DeleteTool(ctx, who.Tenant, name)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return writeDeed(ctx, tx, who, audit.ToolRemoved, name, nil)
	})
}
