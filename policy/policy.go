// Package policy decides what agents may do, who has to be asked, and who may answer. It
// reads nothing, keeps nothing and has no clock: the same call under the same rules, grants
// and time always gets the same verdict.
//
// It judges what is stated. For a tool that we run the arguments stated are the arguments
// run. For a permission that an ACP agent asks for, kind, tool, title and arguments are the
// agent's own words: an allow rule trusts the agent, a block rule stops an honest one.
package policy

import (
	"errors"
	"time"
)

// Policy is a file of rules, read. It never changes, so it is safe for concurrent use.
type Policy struct {
	rules     []rule
	tools     toolRisks
	agents    agentRules
	links     linkRules
	templates []Template

	agentCalls agentCallRules
}

// Default is the Policy without rules: what only looks or is of low risk is
// allowed, everything else is asked, everybody may use every agent, and every agent may call every other.
func Default() *Policy { return &Policy{} }

// Decide finds the first rule that matches, or falls back on the risk of the tool. Grants
// are standing answers: the first that covers the call answers where a person would have
// been asked, and never changes a block. The Grants given must not be revoked; whether one
// has a use left at this moment is for the caller to settle.
//
// The order: two names in one case are blocked; the first rule of the file that matches; else the tool's risk, from
// the file or its registration; else what its kind lets expect. Grants come last and turn only an ask into an allow.
func (p *Policy) Decide(c Call, grants []Grant, now time.Time) Verdict {
	q := &question{Call: c}
	if _, err := q.args.read(q.Args); errors.Is(err, errTwoCases) {
		return Verdict{Action: Block, Rule: "default-ambiguous", Risk: p.rule(q).Risk, Reason: "Two names of its arguments differ in case only."}
	}
	v := p.rule(q)
	if v.Action != Ask || v.Always == LimitNone {
		return v
	}
	for i := range grants {
		if g := &grants[i]; g.covers(q, v.Terms, now) {
			v.Action, v.Grant, v.Reason = Allow, g.ID, "It was allowed before."
			return v
		}
	}
	return v
}

// rule is the verdict without Grants. A rule that states no risk has that of the tool, so that buttons for standing
// answers (Standings) stay narrow for a tool of high risk, whichever rule asks.
func (p *Policy) rule(q *question) Verdict {
	for i := range p.rules {
		r := &p.rules[i]
		if !r.matches(q) {
			continue
		}
		v := Verdict{Action: r.Verdict, Rule: r.Name, Reason: r.Reason, Risk: r.Risk, Terms: r.Terms}
		if v.Risk == "" {
			v.Risk = p.byRisk(q).Risk
		}
		return v
	}
	return p.byRisk(q)
}

// byRisk is the verdict where no rule decides: the file's word on the tool, then that of
// its registration, then what its kind lets expect.
// A tool that the file calls low by a pattern still asks when its arguments name a command: "run_*: low" was not
// written for a shell.
func (p *Policy) byRisk(q *question) Verdict {
	c := &q.Call
	if risk, pattern, ok := p.tools.of(c.Tool); ok {
		v := Verdict{Action: risk.action(), Rule: "tools: " + pattern, Risk: risk, Reason: risk.reason()}
		if v.Action == Allow && pattern != c.Tool && (q.namesCommand() || c.stated() && !q.namesKnown(true)) {
			v.Action, v.Reason = Ask, "Its arguments name a command, or could."
		}
		return v
	}
	if c.Own.Verdict != "" {
		return c.owned()
	}
	if c.Risk.known() {
		return c.onOwnTerms(Verdict{Action: c.Risk.action(), Rule: "default-" + string(c.Risk), Risk: c.Risk, Reason: c.Risk.reason()})
	}
	switch c.Kind {
	case "read", "search":
		if why := q.looksOutside(); why != "" {
			return Verdict{Action: Ask, Rule: "default-outside", Risk: Medium, Reason: why}
		}
		return Verdict{Action: Allow, Rule: "default-" + c.Kind, Risk: Low, Reason: "It only looks."}
	}
	return c.onOwnTerms(Verdict{Action: Ask, Rule: "default", Risk: Medium, Reason: "No rule decides it."})
}

// onOwnTerms adds the tool's registered Terms and reason to a verdict by risk that asks.
func (c *Call) onOwnTerms(v Verdict) Verdict {
	if v.Action != Ask {
		return v
	}
	v.Terms = c.Own.Terms
	if c.Own.Reason != "" {
		v.Reason = c.Own.Reason
	}
	return v
}

// owned is the verdict a tool was registered with; one we do not know asks.
func (c *Call) owned() Verdict {
	v := Verdict{Action: c.Own.Verdict, Rule: "tool: " + c.Tool, Reason: c.Own.Reason, Risk: c.Risk, Terms: c.Own.Terms}
	if v.Action != Allow && v.Action != Block {
		v.Action = Ask
	}
	if !v.Risk.known() {
		v.Risk = Medium
	}
	return v
}

// LinkOf is the link that a prompt takes which names none itself, and the rule that decides.
func (p *Policy) LinkOf(q Prompted) (link Link, rule string) { return p.links.of(q) }
