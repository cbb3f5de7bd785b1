package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/policy"
)

func decide(t *testing.T, verdict, when string, c policy.Call) policy.Action {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil, "rules:\n- name: r\n  verdict: %s\n  when: '%s'\n", verdict, when))
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(c, nil, time.Time{}); v.Rule == "r" {
		return v.Action
	}
	return ""
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	c := policy.Call{
		AgentID: "claude", Session: "s1", Tool: "pay", Kind: "other", Title: "Pay it", By: policy.Principal{Tenant: "acme", User: "eve", Roles: []string{"dev", "lead"}},
		Args: []byte(`{"amount":120,"big":9007199254740993,"rate":1.5,"to":["a","b"],"note":null,"deep":{"on":true}}`),
	}
	for when, want := range map[string]bool{
		`args.amount > 100`: true, `args.amount == 120`: true, `args.amount > 120.5`: false, `args.big == 9007199254740993`: true, `args.big == 9007199254740992`: false,
		`args.rate * 2.0 == 3.0`: true, `"a" in args.to`: true, `args.to.all(x, size(x) == 1)`: true, `args.note == null`: true, `args.deep.on == true`: true,
		`has(args.nothing)`: false, `!has(args.nothing) || args.nothing > 1`: true,
		`agent == "claude" && session == "s1" && tool == "pay" && kind == "other" && title == "Pay it"`: true,
		`tenant == "acme" && user == "eve" && "lead" in roles`:                                          true, `tool.matches("^p.y$")`: true,
	} {
		if got := decide(t, "block", when, c); (got == policy.Block) != want {
			t.Errorf("%s: %q", when, got)
		}
	}
}

// What fails must not help: it allows nothing, and blocks and asks.
func TestExpressionsThatFailErrToCaution(t *testing.T) {
	t.Parallel()
	bomb := `{"x":[` + strings.TrimSuffix(strings.Repeat("1,", 3000), ",") + `]}`
	for name, c := range map[string]struct{ when, args string }{
		"no such field":           {`args.path == "/etc"`, `{}`},
		"another type":            {`args.path.startsWith("/etc")`, `{"path":7}`},
		"division by nothing":     {`1 / args.n == 1`, `{"n":0}`},
		"arguments not an object": {`args.path == "/etc"`, `"x"`},
		"no JSON":                 {`size(args) == 0`, `{`},
		"null":                    {`args == null`, `null`},
		"two senses":              {`args.path == "/w"`, `{"path":"/w","path":"/etc"}`},
		"too deep":                {`size(args) == 1`, `{"a":` + deep(100) + `}`},
		"too long":                {`size(args) == 1`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		"takes for ever":          {`args.x.all(a, args.x.all(b, args.x.all(c, a == b)))`, bomb},
		"a bad pattern":           {`tool.matches(args.p)`, `{"p":"("}`},
	} {
		call := policy.Call{Tool: "t", Args: []byte(c.args)}
		for verdict, want := range map[string]policy.Action{"allow": "", "ask": policy.Ask, "block": policy.Block} {
			if got := decide(t, verdict, c.when, call); got != want { // the bomb's 27 000 000 000 steps would outlast the test's limit
				t.Errorf("%s, %s: %q", name, verdict, got)
			}
		}
	}
}

// An expression that does not look at the arguments does not mind what they are.
func TestExpressionsReadArgumentsOnlyWhenTheyLook(t *testing.T) {
	t.Parallel()
	if got := decide(t, "allow", `tool == "t"`, policy.Call{Tool: "t", Args: []byte("{")}); got != policy.Allow {
		t.Errorf("%q", got)
	}
}
