// aqueduct policy test: a list of cases in YAML, each a call and the verdict that is expected. It is what a
// repository of policies runs in its own tests.

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"aqueduct/policy"
	"aqueduct/store"
)

// policyTestCmd tries a policy file on cases.
type policyTestCmd struct {
	File  string `arg:"" help:"The policy file."`
	Cases string `arg:"" help:"The cases, YAML: a list of {name, call, principal, grants, want}."`
}

// Run implements the command. Every case that fails is printed. The error is what makes a build fail.
func (c *policyTestCmd) Run(to output) error {
	p, err := readPolicy(c.File)
	if err != nil {
		return err
	}
	cases, err := readCases(c.Cases)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Cases, err)
	}
	failed := 0
	for i, one := range cases {
		// A case that is wrong in itself ends the command at once; a verdict that differs is counted, and the others
		// are tried.
		wrong, err := one.try(p)
		if err != nil {
			return fmt.Errorf("%s: case %d (%q): %w", c.Cases, i+1, one.Name, err)
		}
		if wrong != "" {
			failed++
			fmt.Fprintf(to.out, "FAIL %s: %s\n", one.Name, wrong)
		}
	}
	fmt.Fprintf(to.out, "%d cases, %d failed\n", len(cases), failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(cases))
	}
	return nil
}

// policyCase is one call, or one use of an agent, and what is expected of it. For example {name: reads pass, call:
// {tool: read}, want: {verdict: allow}}.
type policyCase struct {
	Name      string       `yaml:"name"`
	Call      *caseCall    `yaml:"call"`
	MayUse    string       `yaml:"may_use"` // an agent's id, in place of a call
	From      string       `yaml:"from"`    // the agent that calls the one of may_use; left out, a user prompts it
	Principal *casePerson  `yaml:"principal"`
	Grants    []caseGrant  `yaml:"grants"`
	Templates []string     `yaml:"templates"` // given to the principal's whole tenant
	Now       time.Time    `yaml:"now"`
	Want      casedVerdict `yaml:"want"`
}

// caseCall is a tool call as the policy sees it. args are written as YAML and given to the policy as JSON.
type caseCall struct {
	Agent   string      `yaml:"agent"`
	Session string      `yaml:"session"`
	Tool    string      `yaml:"tool"`
	Kind    string      `yaml:"kind"`
	Title   string      `yaml:"title"`
	Args    yaml.Node   `yaml:"args"`
	Risk    policy.Risk `yaml:"risk"`
}

// casePerson is who prompted the agent (the installation's own user when left out), or who gave a grant.
type casePerson struct {
	Tenant string   `yaml:"tenant"`
	User   string   `yaml:"user"`
	Roles  []string `yaml:"roles"`
}

// caseGrant is a grant that exists when the call comes.
type caseGrant struct {
	ID        string     `yaml:"id"`
	Tenant    *string    `yaml:"tenant"` // the principal's when left out
	Tool      string     `yaml:"tool"`
	Kind      string     `yaml:"kind"`
	Agent     string     `yaml:"agent"`
	Session   string     `yaml:"session"`
	User      string     `yaml:"user"`
	Match     yaml.Node  `yaml:"match"`
	ExpiresAt time.Time  `yaml:"expires_at"`
	UsesLeft  *int       `yaml:"uses_left"`
	GivenBy   casePerson `yaml:"given_by"`
}

// casedVerdict is what is compared: the members that are given.
type casedVerdict struct {
	Verdict policy.Action `yaml:"verdict"`
	Rule    string        `yaml:"rule"`
	Risk    policy.Risk   `yaml:"risk"`
	Grant   string        `yaml:"grant"`
}

// readCases refuses unknown members, and a file without cases: it would pass with any policy.
func readCases(path string) ([]policyCase, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []policyCase
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&cases); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, errors.New("there are no cases")
	}
	return cases, nil
}

// try returns what is wrong, "" when all is as expected.
func (c policyCase) try(p *policy.Policy) (string, error) {
	switch c.Want.Verdict {
	case policy.Allow, policy.Ask, policy.Block:
	default:
		return "", fmt.Errorf("want: unknown verdict %q; it is allow, require_approval (or ask) or block", c.Want.Verdict)
	}
	by := c.by()
	// The zero Now of a case without one is before the end of every Grant that has an end.
	if (c.Call == nil) == (c.MayUse == "") {
		return "", errors.New("a case has either a call or may_use")
	}
	if c.Call != nil && c.From != "" {
		return "", errors.New("from is the agent that calls the one of may_use; a call has agent")
	}
	if c.From != "" {
		return c.Want.differs(p.MayCall(by, c.From, c.MayUse)), nil
	}
	if c.Call == nil {
		return c.Want.differs(p.MayUse(by, c.MayUse)), nil
	}
	call, err := c.Call.read(by)
	if err != nil {
		return "", err
	}
	grants, err := c.grants(p, by)
	if err != nil {
		return "", err
	}
	return c.Want.differs(p.Decide(call, grants, c.Now)), nil
}

// by is whose call it is.
func (c policyCase) by() policy.Principal {
	if c.Principal == nil {
		return policy.Principal(store.LocalPrincipal())
	}
	return policy.Principal(*c.Principal)
}

// read is the call as the policy takes it.
func (c caseCall) read(by policy.Principal) (policy.Call, error) {
	args, err := asJSON(&c.Args)
	return policy.Call{AgentID: c.Agent, Session: c.Session, Tool: c.Tool, Kind: c.Kind, Title: c.Title, Args: args, Risk: c.Risk, By: by}, err
}

// grants are those of the case and those of the templates it names, in this order.
func (c policyCase) grants(p *policy.Policy, by policy.Principal) ([]policy.Grant, error) {
	var all []policy.Grant
	for i, g := range c.Grants {
		grant, err := g.read(fmt.Sprintf("grant %d", i+1), by)
		if err != nil {
			return nil, fmt.Errorf("grant %d: %w", i+1, err)
		}
		all = append(all, grant)
	}
	for _, name := range c.Templates {
		given := p.Template(name)
		if given == nil {
			return nil, fmt.Errorf("the policy has no template %q", name)
		}
		for _, g := range given {
			g.ID, g.Tenant = name, by.Tenant
			all = append(all, g)
		}
	}
	return all, nil
}

// read is the grant as the policy takes it; its match is checked like one that a person gives.
func (g caseGrant) read(id string, by policy.Principal) (policy.Grant, error) {
	out := policy.Grant{
		ID: cmp.Or(g.ID, id), Tenant: by.Tenant, Tool: g.Tool, Kind: g.Kind, Agent: g.Agent, Session: g.Session, User: g.User,
		ExpiresAt: g.ExpiresAt, UsesLeft: policy.Unlimited, GivenBy: policy.Principal(g.GivenBy),
	}
	if g.Tenant != nil {
		out.Tenant = *g.Tenant
	}
	if g.UsesLeft != nil {
		out.UsesLeft = *g.UsesLeft
	}
	match, err := asJSON(&g.Match)
	if err != nil {
		return out, err
	}
	out.Match = match
	return out, policy.CheckMatch(match)
}

// asJSON is a YAML value as JSON; nil for none.
// Policies see arguments as agents send them, which is JSON: numbers and member names have to be judged in that form.
func asJSON(n *yaml.Node) ([]byte, error) {
	if n.IsZero() {
		return nil, nil
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// differs describes how the verdict is another than the expected one; "" when it is not.
func (w casedVerdict) differs(v policy.Verdict) string {
	switch {
	case w.Verdict != v.Action:
		return fmt.Sprintf("verdict %s by rule %q (%s), want %s", v.Action, v.Rule, v.Reason, w.Verdict)
	case w.Rule != "" && w.Rule != v.Rule:
		return fmt.Sprintf("verdict %s as wanted, but by rule %q, want %q", v.Action, v.Rule, w.Rule)
	case w.Risk != "" && w.Risk != v.Risk:
		return fmt.Sprintf("risk %q by rule %q, want %q", v.Risk, v.Rule, w.Risk)
	case w.Grant != "" && w.Grant != v.Grant:
		return fmt.Sprintf("grant %q, want %q", v.Grant, w.Grant)
	}
	return ""
}
