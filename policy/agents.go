package policy

import (
	"cmp"
	"fmt"
)

// agentRule is who may use which agents.
// For example:
//
//	agents:
//	  - {agent: "claude*", role: developer}
//	  - {agent: "*", user: ada, verdict: block, reason: "Not during the freeze."}
type agentRule struct {
	Name    string `yaml:"name"`
	Agent   names  `yaml:"agent"`
	who     `yaml:",inline"`
	Verdict Action `yaml:"verdict"` // left out: allow
	Reason  string `yaml:"reason"`
}

// agentRules are the section of the file. Without one (nil) everybody may use every agent;
// with one, only those whom it allows.
type agentRules []agentRule

// MayUse decides whether a user may prompt an agent: Allow or Block.
// The first rule that names agent and user decides. A section that holds no rule at all lets no user use any agent, so
// that a file which was cut short does not open everything.
func (p *Policy) MayUse(by Principal, agentID string) Verdict {
	if p.agents == nil {
		return Verdict{Action: Allow, Rule: "default", Reason: "No rule says who may use agents."}
	}
	for i, r := range p.agents {
		if r.Agent.globs(agentID) && r.is(by) {
			return Verdict{Action: r.Verdict, Rule: r.name(i), Reason: r.Reason}
		}
	}
	return Verdict{Action: Block, Rule: "agents", Reason: "No rule lets this user use the agent."}
}

// name is what decisions by the rule are kept under; i is its place in the section.
func (r agentRule) name(i int) string {
	return cmp.Or(r.Name, fmt.Sprintf("agents %d", i+1))
}

// check fills in the verdict that a rule leaves out. To use an agent is allowed or not; there is no Question about it.
func (a agentRules) check() error {
	for i := range a {
		switch a[i].Verdict {
		case "":
			a[i].Verdict = Allow
		case Allow, Block:
		default:
			return fmt.Errorf("policy: %s: unknown verdict %q; it is allow or block", a[i].name(i), a[i].Verdict)
		}
	}
	return nil
}
