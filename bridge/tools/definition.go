package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"aqueduct/bridge/approval"
	"aqueduct/internal/ownfile"
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
	// let a caller use any file of this machine as a key.
	SecretFile ownfile.Secret `json:"secret_file,omitempty" yaml:"secret_file"`
}

// Kinds of tools on the wire (contract §2).
const (
	WireServer = "server_tool"
	WireClient = "client_tool"
)

// BudgetTool is the name under which people are asked to add to a budget.
const BudgetTool = approval.BudgetTool

// ErrDefinition is the error of a definition that is refused.
var ErrDefinition = errors.New("tools: not a tool")

// toolName reports whether a name is safe in a route, a header and a log line, and not reserved.
func toolName(name string) bool {
	return !approval.ReservedTool(name) && regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(name)
}

// ReservedServer reports whether the tools of an MCP server of that name would have names of this server's own.
func ReservedServer(name string) bool { return approval.ReservedTool(name + ".") }

// Tool checks a definition and returns its row. checkURL decides whether an endpoint may be called.
// It is checked whole before anything is kept, and each refusal names the member and what it may be: a tool that is
// only found wrong when an agent calls it fails in the middle of a conversation.
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
		return wrong("the name is 1 to 128 letters, digits, dots, underscores or hyphens, and is not reserved (aqueduct.*, budget.*, %s, %s)", approval.PermissionTool, approval.InputTool)
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

// own is the policy that a tool was registered with. Rules of the policy file take precedence.
type own struct {
	Risk policy.Risk `json:"risk,omitempty"`
	TTL  string      `json:"ttl,omitempty"` // as in policy files: 30m
	policy.Own
}

// readOwn reads a tool's own policy. A member that is unknown is refused: a misspelt four_eyes would otherwise let
// calls through.
func readOwn(raw json.RawMessage) (o own, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&o); err == nil && o.TTL != "" {
		o.Own.TTL, err = time.ParseDuration(o.TTL)
	}
	return o, err
}

// checkOwn refuses a policy of a tool that cannot be applied.
func checkOwn(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	o, err := readOwn(raw)
	if err != nil {
		return errors.New("it has risk, verdict, reason, ttl (as in 30m), approvers, four_eyes, may_edit")
	}
	switch o.Risk {
	case "", policy.Low, policy.Medium, policy.High:
		return o.Own.Check(o.Risk)
	}
	return errors.New("risk is low, medium or high")
}

// ParseFile reads the tools of a file: YAML with a list under tools.
// Each entry goes through JSON, so that a file and the API have the same members, the same checks and the same errors.
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
