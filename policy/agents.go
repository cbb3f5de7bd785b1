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

// agentCallRule is which agent may call which. who is the user for whom the calling agent works.
// For example:
//
//	agent_calls:
//	  - {from: planner, agent: [research, calendar]}
//	  - {from: "*", agent: "payroll*", verdict: block, reason: "Payroll takes no calls of agents."}
type agentCallRule struct {
	From      names `yaml:"from"`
	agentRule `yaml:",inline"`
}

// agentCallRules are the section of the file. It reads like the section agents: without one (nil) every agent may call
// every other, with one only as it allows.
type agentCallRules []agentCallRule

// MayUse decides whether a user may prompt an agent: Allow or Block.
// The first rule that names agent and user decides. A section that holds no rule at all lets no user use any agent, so
// that a file which was cut short does not open everything.
func (p *Policy) MayUse(by Principal, agentID string) Verdict {
	if p.agents == nil {
		return Verdict{Action: Allow, Rule: "default", Reason: "No rule says who may use agents."}
	}
	for i, r := range p.agents {
		if r.Agent.globs(agentID) && r.is(by) {
			return Verdict{Action: r.Verdict, Rule: r.name("agents", i), Reason: r.Reason}
		}
	}
	return Verdict{Action: Block, Rule: "agents", Reason: "No rule lets this user use the agent."}
}

// MayCall decides whether the agent from may call another one for a user: Allow or Block. MayUse is asked as well: it
// decides about the user.
func (p *Policy) MayCall(by Principal, from, agentID string) Verdict {
	if p.agentCalls == nil {
		return Verdict{Action: Allow, Rule: "default", Reason: "No rule says which agents may call others."}
	}
	for i, r := range p.agentCalls {
		if r.From.globs(from) && r.Agent.globs(agentID) && r.is(by) {
			return Verdict{Action: r.Verdict, Rule: r.name("agent_calls", i), Reason: r.Reason}
		}
	}
	return Verdict{Action: Block, Rule: "agent_calls", Reason: "No rule lets this agent call the other."}
}

// name is what decisions by the rule are kept under; i is its place in the section.
func (r agentRule) name(section string, i int) string {
	return cmp.Or(r.Name, fmt.Sprintf("%s %d", section, i+1))
}

// check fills in the verdict that a rule leaves out. To use an agent is allowed or not; there is no Question about it.
func (r *agentRule) check(section string, i int) error {
	switch r.Verdict {
	case "":
		r.Verdict = Allow
	case Allow, Block:
	default:
		return fmt.Errorf("policy: %s: unknown verdict %q; it is allow or block", r.name(section, i), r.Verdict)
	}
	return nil
}

func (a agentRules) check() error {
	for i := range a {
		if err := a[i].check("agents", i); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a rule that names neither agent: it would be meant for one, and hold for all.
func (a agentCallRules) check() error {
	for i := range a {
		if len(a[i].From) == 0 || len(a[i].Agent) == 0 {
			return fmt.Errorf("policy: %s: it needs from, the agent that calls, and agent, the one that is called", a[i].name("agent_calls", i))
		}
		if err := a[i].agentRule.check("agent_calls", i); err != nil {
			return err
		}
	}
	return nil
}
