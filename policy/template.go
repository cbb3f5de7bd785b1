package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Template is several Grants under one name. Whose they are, their ids and ends are filled
// in by who gives them.
// Templates let an operator prepare answers that fit together ("may run the tests and read docs"), which a person then
// gives to a session at once.
type Template struct {
	Name   string
	Reason string
	TTL    time.Duration // for how long they are meant; 0: the default
	Grants []Grant
}

// Templates are all of the file, by name.
func (p *Policy) Templates() []Template {
	all := slices.Clone(p.templates)
	for i := range all {
		all[i].Grants = p.Template(all[i].Name)
	}
	return all
}

// Template is the Grants under a name, none when there is no such name.
func (p *Policy) Template(name string) []Grant {
	for _, t := range p.templates {
		if t.Name == name {
			return slices.Clone(t.Grants)
		}
	}
	return nil
}

// templateFile is a Template as it is written.
type templateFile struct {
	Reason string        `yaml:"reason"`
	TTL    time.Duration `yaml:"ttl"`
	Grants []grantFile   `yaml:"grants"`
}

// grantFile is a Grant as it is written, for one or more tools.
type grantFile struct {
	Tool  names     `yaml:"tool"` // names, not globs: one Grant for each
	Kind  string    `yaml:"kind"`
	Agent string    `yaml:"agent"`
	Match yaml.Node `yaml:"match"`
	Uses  *int      `yaml:"uses"`
}

func templates(written map[string]templateFile) ([]Template, error) {
	var all []Template
	for name, f := range written {
		t, err := f.read(name)
		if err != nil {
			return nil, fmt.Errorf("policy: template %q: %w", name, err)
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (f templateFile) read(name string) (Template, error) {
	t := Template{Name: name, Reason: f.Reason, TTL: f.TTL}
	if len(f.Grants) == 0 {
		return t, errors.New("it has no grants")
	}
	if err := (Terms{TTL: f.TTL}).check(); err != nil {
		return t, err
	}
	for _, g := range f.Grants {
		grants, err := g.read()
		if err != nil {
			return t, err
		}
		t.Grants = append(t.Grants, grants...)
	}
	return t, nil
}

// read makes a Grant for each tool. A Match is required: a Grant without one covers nothing, which no operator
// writes on purpose.
func (g grantFile) read() ([]Grant, error) {
	var grants []Grant
	match, err := matchOf(&g.Match)
	if err != nil {
		return nil, err
	}
	uses := Unlimited
	if g.Uses != nil {
		uses = *g.Uses
	}
	switch {
	case len(g.Tool) == 0:
		return nil, errors.New("a grant names its tool")
	case uses == 0 || uses < Unlimited:
		return nil, errors.New("uses is at least 1")
	case g.Kind != "" && !slices.Contains(kinds(), g.Kind):
		return nil, fmt.Errorf("unknown kind %q; ACP has %v", g.Kind, kinds())
	}
	for _, tool := range g.Tool {
		grants = append(grants, Grant{Tool: tool, Kind: g.Kind, Agent: g.Agent, Match: match, UsesLeft: uses})
	}
	return grants, nil
}

// matchOf is a Match written in YAML.
func matchOf(n *yaml.Node) (json.RawMessage, error) {
	if n.IsZero() {
		return nil, errors.New(`a grant needs a match; {"*": true} is any arguments`)
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return raw, CheckMatch(raw)
}
