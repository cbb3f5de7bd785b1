package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// kinds are the tool kinds of ACP. A rule of another would never match, and a block rule
// that never matches is worse than none.
func kinds() []string {
	return []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
}

// Parse reads a policy file. What it does not know it refuses.
func Parse(data []byte) (*Policy, error) {
	var file struct {
		Rules []rule `yaml:"rules"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("policy: the file has more than one document")
	}
	known := map[string]bool{}
	for i, r := range file.Rules {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("policy: rule %d (%q): %w", i+1, r.Name, err)
		}
		if known[r.Name] {
			return nil, fmt.Errorf("policy: rule %d: the name %q is taken", i+1, r.Name)
		}
		known[r.Name] = true
	}
	return &Policy{rules: file.Rules}, nil
}

func (r rule) check() error {
	switch {
	case r.Name == "":
		return errors.New("it needs a name: decisions are kept under it")
	case r.Kind != "" && !slices.Contains(kinds(), r.Kind):
		return fmt.Errorf("unknown kind %q; ACP has %v", r.Kind, kinds())
	}
	switch r.Verdict {
	case Allow, Ask, Block:
		return nil
	}
	return fmt.Errorf("unknown verdict %q; it is allow, ask or block", r.Verdict)
}
