package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// Link is the way that a prompt takes: answered at once, or by the queue (platform contract §3.2).
type Link string

// The links.
const (
	Sync  Link = "sync"
	Async Link = "async"
)

// linkRule is which prompts wait in the queue.
// For example:
//
//	links:
//	  - {agent: "report*", link: async}
//	  - {label: batch, cost_over: 0.5, link: async}
type linkRule struct {
	Name  string `yaml:"name"`
	Agent names  `yaml:"agent"`
	who   `yaml:",inline"`
	Label names `yaml:"label"` // one of the request's
	// CostOver is for requests that name what they may cost: more than this.
	CostOver *float64 `yaml:"cost_over"`
	Link     Link     `yaml:"link"`
}

// linkRules are the section of the file. The first rule that fits decides; without one a prompt is answered at once.
type linkRules []linkRule

// Prompted is a prompt as rules for links see it.
type Prompted struct {
	By           Principal
	AgentID      string
	Labels       []string
	ExpectedCost float64
}

// of is the link that a prompt takes, and the rule that decides.
func (l linkRules) of(q Prompted) (link Link, rule string) {
	for i, r := range l {
		if r.fits(q) {
			return r.Link, r.name(i)
		}
	}
	return Sync, "default"
}

func (r linkRule) fits(q Prompted) bool {
	return r.Agent.globs(q.AgentID) && r.is(q.By) && (r.CostOver == nil || q.ExpectedCost > *r.CostOver) &&
		(len(r.Label) == 0 || slices.ContainsFunc(q.Labels, r.Label.globs))
}

// name is what decisions by the rule are kept under; i is its place in the section.
func (r linkRule) name(i int) string { return cmp.Or(r.Name, fmt.Sprintf("links %d", i+1)) }

// check refuses a rule that decides nothing.
func (l linkRules) check() error {
	for i, r := range l {
		if r.Link != Sync && r.Link != Async {
			return fmt.Errorf("policy: %s: link is sync or async, not %q", r.name(i), r.Link)
		}
	}
	return nil
}
