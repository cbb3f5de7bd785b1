package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// file is a policy file.
type file struct {
	Rules     []rule                  `yaml:"rules"`
	Tools     toolRisks               `yaml:"tools"`
	Agents    agentRules              `yaml:"agents"`
	Links     linkRules               `yaml:"links"`
	Templates map[string]templateFile `yaml:"templates"`

	AgentCalls agentCallRules `yaml:"agent_calls"`
}

// Parse reads a policy file. What it does not know it refuses.
// It reads YAML strictly and compiles every expression, so that a mistake is found when the file is loaded and not
// when a call comes.
func Parse(data []byte) (*Policy, error) {
	f, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if err := f.compile(); err != nil {
		return nil, err
	}
	if err := f.Agents.check(); err != nil {
		return nil, err
	}
	if err := f.AgentCalls.check(); err != nil {
		return nil, err
	}
	if err := f.Links.check(); err != nil {
		return nil, err
	}
	t, err := templates(f.Templates)
	if err != nil {
		return nil, err
	}
	if len(f.Rules)+len(f.Tools)+len(f.Links)+len(t) == 0 && f.Agents == nil && f.AgentCalls == nil {
		return nil, errors.New("policy: the file holds no rule; who wants the default leaves the file out")
	}
	return &Policy{rules: f.Rules, tools: f.Tools, agents: f.Agents, agentCalls: f.AgentCalls, links: f.Links, templates: t}, nil
}

// read decodes the file, which may be empty. It is looked through as a tree first, since the decoder does not
// distinguish an empty value from one that is left out.
func read(data []byte) (*file, error) {
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	if err := filled(&tree, 0); err != nil {
		return nil, err
	}
	f := new(file)
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	return f, nil
}

// filled refuses keys with nothing behind them. "user:" with the name forgotten would
// otherwise hold for everybody. Only a whole section may be empty, and a match, where null
// is a value.
func filled(n *yaml.Node, depth int) error {
	for i, child := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 1
		switch {
		case key && n.Content[i-1].Value == "match":
			continue
		case (depth > 1 || key && (n.Content[i-1].Value == "agents" || n.Content[i-1].Value == "agent_calls")) && nothing(child):
			return fmt.Errorf("line %d: there is nothing behind the key", child.Line)
		}
		if err := filled(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func nothing(n *yaml.Node) bool {
	return n.ShortTag() == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0
}

// compile checks the rules in place and compiles their expressions.
// Names must differ, because decisions are kept under them.
func (f *file) compile() error {
	var c compiler
	known := map[string]bool{}
	for i := range f.Rules {
		r := &f.Rules[i]
		err := r.check()
		if err == nil && r.When != "" {
			if r.when, err = c.compile(r.When); err != nil {
				err = fmt.Errorf("when: %w", err)
			}
		}
		if err != nil {
			return fmt.Errorf("policy: rule %d (%q): %w", i+1, r.Name, err)
		}
		if known[r.Name] {
			return fmt.Errorf("policy: rule %d: the name %q is taken", i+1, r.Name)
		}
		known[r.Name] = true
	}
	return nil
}
