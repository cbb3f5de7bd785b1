// The settings file and the environment as sources of flags (kong resolvers). Keys are the flags' names, with - or _;
// the command line goes before the environment, and that before the file.

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/internal/secretfile"
)

// lookup is os.LookupEnv or a test's.
type lookup func(string) (string, bool)

// settings are what the command line does not give: environment, then file. It is filled before the flags are resolved
// and only read afterwards.
type settings struct {
	env  lookup
	file map[string]any
	path string // of the file

	contract contractFile
	earlier  func() error // refuses the command where the state of an earlier version was left
}

// configFlag is read before the other flags are resolved.
type configFlag string

// BeforeResolve implements kong's hook.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path, s *settings) error {
	return s.load(string(ctx.FlagValue(trace.Flag).(configFlag)))
}

// load reads the file: TOML by its name, else YAML, which JSON is too. The file is parsed twice: once for its values,
// and once as nodes, because the order of a table's keys has a meaning for agents.
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
	var doc yaml.Node
	given := make(map[string]any)
	if err := errors.Join(yaml.Unmarshal(raw, &doc), yaml.Unmarshal(raw, &given)); err != nil {
		return fmt.Errorf("--config %s: it is not a table of settings%s", path, lineOf(err))
	}
	// Of two files, AQUEDUCT_CONFIG's and the flag's, the second one counts.
	s.file, s.contract = make(map[string]any, len(given)), contractFile{}
	if err := s.contract.translate(given); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	for key, value := range given {
		// Only tables have an order that a map loses; lists keep theirs.
		if table, ok := value.(map[string]any); ok {
			value = orderedTable{table, keysIn(member(&doc, key))}
		}
		s.file[strings.ReplaceAll(key, "_", "-")] = value
	}
	return nil
}

// atLine finds the line in an error of the YAML reader.
var atLine = regexp.MustCompile(`^yaml: (line [0-9]+):`)

// lineOf is the line that an error of the YAML reader names, as the end of a sentence. The rest of the error quotes the
// file, which may hold secrets.
func lineOf(err error) string {
	if at := atLine.FindStringSubmatch(err.Error()); at != nil {
		return ", " + at[1]
	}
	return ""
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
// Merged mappings (<<) count as if their keys stood there.
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

// Validate implements kong.Resolver: an unknown key is a mistake that would otherwise pass unnoticed. The two secrets
// are no flags and are known all the same.
func (s *settings) Validate(app *kong.Application) error {
	known := map[string]bool{authToken: true, bootstrapToken: true}
	err := kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known[flag.Name] = true
		}
		return next(nil)
	})
	// Settings of all commands are known to each, so that one file can serve them all.
	for key := range s.file {
		if err == nil && !known[key] {
			err = fmt.Errorf("--config: there is no setting %q", key)
		}
	}
	return err
}

// Resolve implements kong.Resolver. kong asks for each flag that is not on the command line; nil leaves its default.
func (s *settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	// A variable that is set and empty counts: of a text it takes back what the file has.
	if value, ok := s.env(envName(flag.Name)); ok {
		return value, nil
	}
	if value, ok := s.env(alias(flag.Name)); ok { // most flags have none, and no variable has the empty name
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
// An empty one in the file is refused: it would pass for none, and the proxy would look for a token elsewhere.
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
