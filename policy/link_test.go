package policy_test

import (
	"testing"

	"aqueduct/policy"
)

// TestLinkOf: the first rule that fits a prompt decides which link it takes; without one it is answered at once.
func TestLinkOf(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`links:
- {agent: "live*", link: sync}
- {name: nightly, label: "night-*", link: async}
- {user: ann, cost_over: 1.5, link: async}
- {agent: report, tenant: acme, link: async}
`))
	if err != nil {
		t.Fatal(err)
	}
	ann, bob := policy.Principal{Tenant: "acme", User: "ann"}, policy.Principal{Tenant: "other", User: "bob"}
	for name, c := range map[string]struct {
		q    policy.Prompted
		want policy.Link
		rule string
	}{
		"an agent that is never queued": {policy.Prompted{By: ann, AgentID: "live-chat", Labels: []string{"night-1"}, ExpectedCost: 9}, policy.Sync, "links 1"},
		"a label":                       {policy.Prompted{By: bob, AgentID: "a", Labels: []string{"x", "night-1"}}, policy.Async, "nightly"},
		"a cost":                        {policy.Prompted{By: ann, AgentID: "a", ExpectedCost: 1.6}, policy.Async, "links 3"},
		"that cost":                     {policy.Prompted{By: ann, AgentID: "a", ExpectedCost: 1.5}, policy.Sync, "default"},
		"another user's":                {policy.Prompted{By: bob, AgentID: "a", ExpectedCost: 9}, policy.Sync, "default"},
		"an agent":                      {policy.Prompted{By: ann, AgentID: "report"}, policy.Async, "links 4"},
		"of another tenant":             {policy.Prompted{By: bob, AgentID: "report"}, policy.Sync, "default"},
	} {
		if link, rule := p.LinkOf(c.q); link != c.want || rule != c.rule {
			t.Errorf("%s: %s by %s", name, link, rule)
		}
	}
	if link, rule := policy.Default().LinkOf(policy.Prompted{By: ann}); link != policy.Sync || rule != "default" {
		t.Errorf("%s by %s", link, rule)
	}
	for _, wrong := range []string{"links: [{agent: a}]", "links: [{agent: a, link: later}]", "links: [{agents: a, link: sync}]"} {
		if _, err := policy.Parse([]byte(wrong)); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
