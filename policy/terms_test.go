package policy_test

import (
	"errors"
	"testing"

	"aqueduct/policy"
)

func TestMayApprove(t *testing.T) {
	t.Parallel()
	eve := policy.Principal{Tenant: "acme", User: "eve"}
	bob := policy.Principal{Tenant: "acme", User: "bob", Roles: []string{"lead"}}
	lead := policy.Approvers{"role:lead", "user:eve"}
	for name, c := range map[string]struct {
		terms policy.Terms
		by    policy.Principal
		want  error
	}{
		"anybody":                        {policy.Terms{}, eve, nil},
		"another tenant":                 {policy.Terms{}, policy.Principal{Tenant: "umbrella", User: "eve"}, policy.ErrOtherTenant},
		"oneself":                        {policy.Terms{FourEyes: true}, eve, policy.ErrFourEyes},
		"oneself, named":                 {policy.Terms{FourEyes: true, Approvers: lead}, eve, policy.ErrFourEyes},
		"another":                        {policy.Terms{FourEyes: true}, bob, nil},
		"nobody in particular":           {policy.Terms{FourEyes: true}, policy.Principal{Tenant: "acme"}, policy.ErrFourEyes},
		"by role":                        {policy.Terms{Approvers: lead}, bob, nil},
		"by name":                        {policy.Terms{Approvers: lead}, eve, nil},
		"neither":                        {policy.Terms{Approvers: lead}, policy.Principal{Tenant: "acme", User: "kim", Roles: []string{"leader"}}, policy.ErrNotApprover},
		"a user with the name of a role": {policy.Terms{Approvers: lead}, policy.Principal{Tenant: "acme", User: "lead"}, policy.ErrNotApprover},
		"a role that spells a user":      {policy.Terms{Approvers: lead}, policy.Principal{Tenant: "acme", User: "kim", Roles: []string{"eve", "user:eve"}}, policy.ErrNotApprover},
	} {
		if err := c.terms.MayApprove(c.by, eve); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMayUse(t *testing.T) {
	t.Parallel()
	p := example(t)
	hr := policy.Principal{Tenant: "acme", User: "kim", Roles: []string{"staff", "hr"}}
	eve := policy.Principal{Tenant: "acme", User: "eve"}
	for name, c := range map[string]struct {
		by    policy.Principal
		agent string
		rule  string
		want  policy.Action
	}{
		"by role":        {hr, "payroll-eu", "agents 1", policy.Allow},
		"blocked":        {eve, "payroll-eu", "no-payroll", policy.Block},
		"by tenant":      {eve, "claude", "agents 3", policy.Allow},
		"another tenant": {policy.Principal{Tenant: "umbrella", User: "eve"}, "claude", "agents", policy.Block},
		"nobody":         {policy.Principal{}, "claude", "agents", policy.Block},
	} {
		if v := p.MayUse(c.by, c.agent); v.Action != c.want || v.Rule != c.rule || v.Action == policy.Block && v.Reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := policy.Default().MayUse(policy.Principal{}, "x"); v.Action != policy.Allow {
		t.Errorf("%+v", v)
	}
	none, err := policy.Parse([]byte("agents: []"))
	if err != nil {
		t.Fatal(err)
	}
	if v := none.MayUse(eve, "x"); v.Action != policy.Block {
		t.Errorf("an empty section: %+v", v)
	}
}

// TestMayCall: the first rule that names both agents and the user decides; with a section, what no rule allows is blocked.
func TestMayCall(t *testing.T) {
	t.Parallel()
	p := example(t)
	eve := policy.Principal{Tenant: "acme", User: "eve"}
	for _, c := range []struct {
		from, agent, rule string
		want              policy.Action
	}{
		{"planner", "research", "agent_calls 1", policy.Allow},
		{"planner", "payroll-eu", "no-calls-of-payroll", policy.Block},
		{"research", "planner", "agent_calls", policy.Block},
		{"planners", "research", "agent_calls", policy.Block},
		{"", "research", "agent_calls", policy.Block},
	} {
		if v := p.MayCall(eve, c.from, c.agent); v.Action != c.want || v.Rule != c.rule || v.Action == policy.Block && v.Reason == "" {
			t.Errorf("%s calls %s: %+v", c.from, c.agent, v)
		}
	}
	if v := policy.Default().MayCall(eve, "a", "b"); v.Action != policy.Allow {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{"{from: a}", "{agent: a}", "{from: a, agent: b, verdict: ask}", "{from: '', agent: b}", "{from: [], agent: b}", "{to: b}"} {
		if _, err := policy.Parse([]byte("agent_calls: [" + bad + "]")); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if _, err := policy.Parse([]byte("agent_calls:")); err == nil {
		t.Error("a section whose entries are forgotten is taken")
	}
	if _, err := policy.Parse([]byte("agents: [{from: a, agent: b}]")); err == nil {
		t.Error("from is taken in the section agents")
	}
}
