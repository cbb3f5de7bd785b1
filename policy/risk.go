package policy

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Risk is how much harm a tool can do.
type Risk string

// The Risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

func (r Risk) known() bool { return r == Low || r == Medium || r == High }

// action is what a Risk means where no rule names an action.
// Medium and high differ in what may be answered for good (Standings), not in whether a person is asked.
func (r Risk) action() Action {
	if r == Low {
		return Allow
	}
	return Ask
}

func (r Risk) reason() string { return "The tool is of " + string(r) + " risk." }

// toolRisk is the file's Risk of the tools with a form of name.
type toolRisk struct {
	pattern string
	risk    Risk
}

// toolRisks are in the order of the file: the first that matches counts.
type toolRisks []toolRisk

// of finds a tool's risk. A name with what cannot be seen is never of low risk: it looks
// like another.
func (t toolRisks) of(tool string) (risk Risk, pattern string, ok bool) {
	seen := plain(tool)
	for _, r := range t {
		if !glob(r.pattern, seen) || r.risk == Low && seen != tool {
			continue
		}
		return r.risk, r.pattern, true
	}
	return "", "", false
}

// UnmarshalYAML reads a mapping and keeps its order.
func (t *toolRisks) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: tools is a mapping from names to risks", n.Line)
	}
	known := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		r := toolRisk{n.Content[i].Value, Risk(n.Content[i+1].Value)}
		switch {
		case r.pattern == "" || known[r.pattern]:
			return fmt.Errorf("line %d: the tool %q is empty or named twice", n.Content[i].Line, r.pattern)
		case !r.risk.known():
			return fmt.Errorf("line %d: unknown risk %q; it is low, medium or high", n.Content[i+1].Line, r.risk)
		}
		known[r.pattern] = true
		*t = append(*t, r)
	}
	return nil
}
