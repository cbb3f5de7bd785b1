package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// lookup is os.LookupEnv or a test's.
type lookup func(string) (string, bool)

// settings are what the command line does not say: environment, then file.
type settings struct {
	env  lookup
	file map[string]any
}

// configFlag is read before the other flags are resolved.
type configFlag string

// BeforeResolve implements kong's hook.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path, s *settings) error {
	return s.load(string(ctx.FlagValue(trace.Flag).(configFlag)))
}

// load reads the file. JSON is YAML too.
func (s *settings) load(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	given := make(map[string]any)
	if err := yaml.Unmarshal(raw, &given); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	s.file = make(map[string]any, len(given))
	for key, value := range given {
		s.file[strings.ReplaceAll(key, "_", "-")] = value
	}
	return nil
}

// Validate implements kong.Resolver: a key nobody reads is a mistake nobody would notice.
func (s *settings) Validate(app *kong.Application) error {
	known := make(map[string]bool)
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
