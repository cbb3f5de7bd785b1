// Package policy decides which permissions need a person. It reads nothing and keeps
// nothing: the same call under the same rules always gets the same verdict.
//
// It judges what an agent states. The kind, the tool and the title of a call are the
// agent's own words, and the title of an execute call need not be the command that runs:
// an allow rule trusts the agent, a block rule stops an honest one.
package policy

// Action is what is to be done with a permission.
type Action string

// The Actions.
const (
	Allow Action = "allow" // nobody is asked
	Ask   Action = "ask"   // a person decides
	Block Action = "block" // nobody is asked, and the agent hears no
)

// Call is a permission as an agent states it.
type Call struct {
	AgentID string
	Tool    string
	Kind    string // ACP's tool kind, "" when not told
	Title   string
	Args    []byte // JSON; no rule looks at them yet
}

// Verdict is what a Policy makes of a Call.
type Verdict struct {
	Action Action
	Rule   string // the name of the rule that matched
	Reason string
}

// Policy is a list of rules.
type Policy struct{ rules []rule }

// Default is the Policy without rules of anybody's: what only looks is allowed, everything
// else is asked.
func Default() *Policy { return &Policy{} }

// Decide finds the first rule that matches, or falls back on what Default does.
func (p *Policy) Decide(c Call) Verdict {
	for _, r := range p.rules {
		if r.matches(c) {
			return Verdict{Action: r.Verdict, Rule: r.Name, Reason: r.Reason}
		}
	}
	switch c.Kind {
	case "read", "search":
		return Verdict{Action: Allow, Rule: "default-" + c.Kind, Reason: "It only looks."}
	}
	return Verdict{Action: Ask, Rule: "default", Reason: "No rule decides it."}
}
