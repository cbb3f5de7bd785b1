package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/internal/secretfile"
)

// lookup is os.LookupEnv or a test's.
type lookup func(string) (string, bool)

// settings are what the command line does not say: environment, then file.
type settings struct {
	env  lookup
	file map[string]any
	path string // of the file

	contract contractFile
}

// configFlag is read before the other flags are resolved.
type configFlag string

// BeforeResolve implements kong's hook.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path, s *settings) error {
	return s.load(string(ctx.FlagValue(trace.Flag).(configFlag)))
}

// load reads the file: TOML by its name, else YAML, which JSON is too.
func (s *settings) load(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	s.path = path
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		if raw, err = yamlOfTOML(raw); err != nil {
			return fmt.Errorf("--config %s: %w", path, err)
		}
	}
	given := make(map[string]any)
	var form *yaml.TypeError
	if err := yaml.Unmarshal(raw, &given); errors.As(err, &form) {
		// Its text quotes the file, which may hold secrets.
		return fmt.Errorf("--config %s: it is not a table of settings", path)
	} else if err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	s.file = make(map[string]any, len(given))
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	if err := s.contract.translate(given); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	for key, value := range given {
		if table, ok := value.(map[string]any); ok {
			value = orderedTable{table, keysIn(member(&doc, key))}
		}
		s.file[strings.ReplaceAll(key, "_", "-")] = value
	}
	return nil
}

// orderedTable is a table of the settings file that is written out in the order it was read in.
type orderedTable struct {
	values map[string]any
	keys   []string
}

// MarshalYAML implements yaml.Marshaler.
func (t orderedTable) MarshalYAML() (any, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range t.keys {
		var k, v yaml.Node
		if err := errors.Join(k.Encode(key), v.Encode(t.values[key])); err != nil {
			return nil, err
		}
		out.Content = append(out.Content, &k, &v)
	}
	return out, nil
}

// member is the value of a key in a YAML mapping; nil when there is none.
func member(of *yaml.Node, key string) *yaml.Node {
	content := pairs(of)
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return content[i+1]
		}
	}
	return nil
}

// keysIn are the keys of a YAML mapping, in the order they are written in, those of merged mappings among them.
func keysIn(of *yaml.Node) (keys []string) {
	content := pairs(of)
	for i := 0; i+1 < len(content); i += 2 {
		more := []string{content[i].Value}
		if content[i].Tag == "!!merge" {
			more = keysIn(content[i+1])
		}
		for _, key := range more {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// pairs is the content of a mapping, behind a document and aliases.
func pairs(of *yaml.Node) []*yaml.Node {
	switch {
	case of == nil:
	case of.Kind == yaml.DocumentNode:
		return pairs(of.Content[0])
	case of.Kind == yaml.AliasNode:
		return pairs(of.Alias)
	case of.Kind == yaml.MappingNode:
		return of.Content
	case of.Kind == yaml.SequenceNode: // of a merge of several
		var all []*yaml.Node
		for _, one := range of.Content {
			all = append(all, pairs(one)...)
		}
		return all
	}
	return nil
}

// Validate implements kong.Resolver: a key nobody reads is a mistake nobody would notice.
func (s *settings) Validate(app *kong.Application) error {
	known := map[string]bool{authToken: true, bootstrapToken: true}
	err := kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known[flag.Name] = true
		}
		return next(nil)
	})
	for key := range s.file {
		if err == nil && !known[key] {
			err = fmt.Errorf("--config: there is no setting %q", key)
		}
	}
	return err
}

// Resolve implements kong.Resolver.
func (s *settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if value, ok := s.env(envName(flag.Name)); ok {
		return value, nil
	}
	if value, ok := s.env(alias(flag.Name)); ok {
		return value + "ms", nil
	}
	return s.file[flag.Name], nil
}

// Secrets that only the file may hold: everybody sees a command line.
const (
	authToken      = "auth-token"
	bootstrapToken = "bootstrap-token"
)

// secret is one of them; "" is none.
func (s *settings) secret(key string) (string, error) {
	value, ok := s.file[key]
	if !ok {
		return "", nil
	}
	text, ok := value.(string)
	if text = strings.TrimSpace(text); !ok || text == "" {
		return "", fmt.Errorf("--config %s: %s is not a text", s.path, key)
	}
	return text, nil
}

// checkMode refuses a settings file with a secret that others may read.
func (s *settings) checkMode() error {
	_, auth := s.file[authToken]
	_, bootstrap := s.file[bootstrapToken]
	if !auth && !bootstrap {
		return nil
	}
	return secretfile.Check(s.path)
}

// envName is the environment's name of a flag.
func envName(flag string) string {
	return "AQUEDUCT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// withEnvName is a flag's help with its environment's name.
func withEnvName(v *kong.Value) string {
	if v.Flag == nil || v.Name == "help" {
		return v.Help
	}
	return v.Help + " ($" + envName(v.Name) + ")"
}

// alias is the name that the proxies' contract has for a span, in milliseconds.
func alias(flag string) string {
	switch flag {
	case "acp-open-timeout":
		return "ACP_OPEN_TIMEOUT_MS"
	case "acp-prompt-timeout":
		return "ACP_PROMPT_TIMEOUT_MS"
	}
	return ""
}
