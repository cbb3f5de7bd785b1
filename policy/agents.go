package policy

import "fmt"

// agentRule says who may use which agents.
type agentRule struct {
	Name    string `yaml:"name"`
	Agent   names  `yaml:"agent"`
	who     `yaml:",inline"`
	Verdict Action `yaml:"verdict"` // left out: allow
	Reason  string `yaml:"reason"`
}

// agentRules are the section of the file. Without one (nil) everybody may use every agent;
// with one, nobody what it does not allow.
type agentRules []agentRule

// MayUse decides whether somebody may prompt an agent: Allow or Block.
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

func (r agentRule) name(i int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("agents %d", i+1)
}

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
