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
