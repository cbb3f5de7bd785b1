package policy

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// names is a condition: one text or several, of which one has to fit. None always fits.
type names []string

// UnmarshalYAML reads a text or a list of texts. An empty one is refused: it is unclear
// whether it fits nothing or everything.
func (n *names) UnmarshalYAML(node *yaml.Node) error {
	nodes := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	if len(nodes) == 0 {
		return fmt.Errorf("line %d: the list is empty", node.Line)
	}
	for _, one := range nodes {
		if one.Kind != yaml.ScalarNode || one.Value == "" {
			return fmt.Errorf("line %d: a text or a list of texts is needed, none of them empty", one.Line)
		}
		*n = append(*n, one.Value)
	}
	return nil
}

// has compares whole texts; globs takes each of the names for a pattern.
func (n names) has(text string) bool { return len(n) == 0 || slices.Contains(n, text) }

func (n names) globs(text string) bool {
	return len(n) == 0 || slices.ContainsFunc(n, func(pattern string) bool { return glob(pattern, text) })
}

// who is a condition on a Principal.
type who struct {
	Tenant names `yaml:"tenant"`
	User   names `yaml:"user"`
	Role   names `yaml:"role"` // one of the Principal's
}

func (w who) is(p Principal) bool {
	return w.Tenant.has(p.Tenant) && w.User.has(p.User) && (len(w.Role) == 0 || slices.ContainsFunc(p.Roles, w.Role.has))
}
