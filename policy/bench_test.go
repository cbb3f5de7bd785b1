package policy_test

import (
	"testing"

	"aqueduct/policy"
)

func BenchmarkDecide(b *testing.B) {
	p := example(b)
	eve := policy.Principal{Tenant: "acme", User: "eve", Roles: []string{"support"}}
	grants := p.Template("look-around")
	for i := range grants {
		grants[i].ID, grants[i].Tenant = "g", "acme"
	}
	for name, c := range map[string]struct {
		call   policy.Call
		grants []policy.Grant
	}{
		"default":    {call: policy.Call{By: eve, Tool: "registered", Risk: policy.Low}},
		"title":      {call: policy.Call{By: eve, Kind: "execute", Title: "go test ./..."}},
		"expression": {call: policy.Call{By: eve, Tool: "send_mail", Args: []byte(`{"to":"a@example.com","body":"hi"}`)}},
		"grant":      {call: policy.Call{By: eve, Tool: "shell", Args: []byte(`{"command":"git status"}`)}, grants: grants},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			now := noon()
			for b.Loop() {
				p.Decide(c.call, c.grants, now)
			}
		})
	}
}
