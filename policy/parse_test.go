package policy_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"aqueduct/policy"
)

func TestParseRefusesWhatWouldNotDoWhatItSeemsTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rules: [{name: a, verdict: allow, user: }]":                                      "nothing behind the key",
		"rules: [{name: a, verdict: allow, user: ~}]":                                     "nothing behind the key",
		"rules: [{name: a, verdict: allow, tool: ''}]":                                    "none of them empty",
		"rules: [{name: a, verdict: allow, tool: []}]":                                    "the list is empty",
		"rules: [{name: a, verdict: allow, tool: [x, ~]}]":                                "nothing behind the key",
		"rules: [{name: a, verdict: allow, tool: {x: y}}]":                                "a text or a list",
		"rules: [{name: a, verdict: allow, kind: [read, exec]}]":                          `unknown kind "exec"`,
		"rules: [{name: a, risk: huge}]":                                                  `unknown risk "huge"`,
		"rules: [{name: a, verdict: block, ttl: 5m}]":                                     "of use only where a person is asked",
		"rules: [{name: a, verdict: allow, four_eyes: true}]":                             "of use only where a person is asked",
		"rules: [{name: a, verdict: ask, ttl: 5}]":                                        "cannot unmarshal",
		"rules: [{name: a, verdict: ask, ttl: -5m}]":                                      "at least 1s",
		"rules: [{name: a, verdict: ask, approvers: [lead]}]":                             `unknown approver "lead"`,
		"rules: [{name: a, verdict: ask, approvers: ['role:']}]":                          `unknown approver "role:"`,
		"rules: [{name: a, verdict: ask, approvers: {}}]":                                 "nothing behind the key",
		"rules: [{name: a, verdict: ask, when: 'args.x'}]":                                "not a bool",
		"rules: [{name: a, verdict: ask, when: 'size(tool)'}]":                            "not a bool",
		"rules: [{name: a, verdict: ask, when: 'user == 3'}]":                             "no matching overload",
		"rules: [{name: a, verdict: ask, when: 'arg.x == 3'}]":                            "undeclared reference to 'arg'",
		"rules: [{name: a, verdict: ask, when: 'now() == 3'}]":                            "undeclared reference",
		"rules: [{name: a, verdict: ask, when: 'tool.matches(\"(\")'}]":                   "missing closing",
		"rules: [{name: a, verdict: ask, when: '" + strings.Repeat("!", 5000) + "true'}]": "size exceeds",
		"rules: [{name: default-deny, verdict: block}]":                                   "without a rule", "rules: [{name: 'tool: x', verdict: block}]": "without a rule",
		"tools: [a]":                                        "mapping from names to risks",
		"tools: {a: tiny}":                                  `unknown risk "tiny"`,
		"tools: {a: low, a: high}":                          "twice",
		"agents:":                                           "nothing behind the key",
		"agents: [{agent: a, verdict: ask}]":                `unknown verdict "ask"`,
		"agents: [{agnt: a}]":                               "agnt not found",
		"templates: {a: {grants: []}}":                      "has no grants",
		"templates: {a: {grants: [{match: {}}]}}":           "names its tool",
		"templates: {a: {grants: [{tool: x}]}}":             "needs a match",
		"templates: {a: {grants: [{tool: x, match: [1]}]}}": "a match is an object",
		"templates: {a: {grants: [{tool: x, match: {p: {prefix_path: ../w}}}]}}":    "prefix_path takes",
		"templates: {a: {grants: [{tool: x, match: {c: {argv: git status}}}]}}":     "argv takes",
		"templates: {a: {grants: [{tool: x, match: {c: {glob: x, equals: x}}}]}}":   "nothing else may stand",
		"templates: {a: {grants: [{tool: x, match: {'*': 1}}]}}":                    "true or left out",
		"templates: {a: {grants: [{tool: x, match: {}, uses: 0}]}}":                 "at least 1",
		"templates: {a: {grants: [{tool: x, match: {}, kind: run}]}}":               `unknown kind "run"`,
		"templates: {a: {ttl: 1ms, grants: [{tool: x, match: {}}]}}":                "at least 1s",
		"templates: {a: {grants: [{tool: x, match: {}}]}, a: {grants: []}}":         "already defined",
		"templates: {a: {grants: [{tool: x, match: {}, session: mine}]}}":           "session not found",
		"rules: [{name: a, verdict: ask, approvers: ['role:x'], approver: 'user'}]": "approver not found",
	} {
		if _, err := policy.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: %v, want %s", text, err, want)
		}
	}
}

func TestParseTakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"rules: [{name: a, verdict: require_approval}]", "rules: [{name: a, risk: high}]", "templates: {a: {grants: [{tool: x, match: {a: ~, b: {}}}]}}", "templates:\ntools: {x: low}\nrules:\n",
		"rules: [{name: a, verdict: ask, user: 7}]", "x: &x {name: a, verdict: ask}", // anchors are YAML's business
	}[:5] {
		if _, err := policy.Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRulesByRiskAndPrincipal(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`
rules:
  - {name: low, tool: a, risk: low}
  - {name: high, tool: b, risk: high}
  - {name: asked though low, tool: c, risk: low, verdict: require_approval}
  - {name: theirs, tool: d, tenant: acme, user: [eve, bob], role: [dev, ops], verdict: allow}
`))
	if err != nil {
		t.Fatal(err)
	}
	dev := func(tenant, user string, roles ...string) policy.Principal {
		return policy.Principal{Tenant: tenant, User: user, Roles: roles}
	}
	for _, c := range []struct {
		tool string
		by   policy.Principal
		want policy.Action
		risk policy.Risk
	}{
		{"a", dev("", ""), policy.Allow, policy.Low}, {"b", dev("", ""), policy.Ask, policy.High}, {"c", dev("", ""), policy.Ask, policy.Low},
		{"d", dev("acme", "eve", "x", "ops"), policy.Allow, policy.Medium}, {"d", dev("acme", "bob", "dev"), policy.Allow, policy.Medium},
		{"d", dev("acme", "kim", "dev"), policy.Ask, policy.Medium}, {"d", dev("acme", "eve"), policy.Ask, policy.Medium}, {"d", dev("umbrella", "eve", "dev"), policy.Ask, policy.Medium},
	} {
		if v := p.Decide(policy.Call{Tool: c.tool, By: c.by}, nil, time.Time{}); v.Action != c.want || v.Risk != c.risk {
			t.Errorf("%s for %+v: %+v", c.tool, c.by, v)
		}
	}
}

// The * of an allowed command stands for no second command.
func TestAllowedCommandsEndWhereTheyEnd(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`rules: [{name: ok, kind: execute, tool: ["go test *", "ls | wc *"], verdict: allow}]`))
	if err != nil {
		t.Fatal(err)
	}
	for title, want := range map[string]policy.Action{
		"go test ./...": policy.Allow, "ls | wc -l": policy.Allow, "ls | wc -l | sh": policy.Ask, "go test x; rm": policy.Ask, "go test x & rm": policy.Ask,
		"go test `rm`": policy.Ask, "go test $X": policy.Ask, "go test x > /etc/passwd": policy.Ask, "go test x || rm": policy.Ask,
	} {
		if v := p.Decide(policy.Call{Kind: "execute", Title: title, Args: []byte(`{"command":` + strconv.Quote(title) + `}`)}, nil, time.Time{}); v.Action != want {
			t.Errorf("%s: %+v", title, v)
		}
	}
}

func TestDecisionsAreReadAgain(t *testing.T) {
	t.Parallel()
	c := goldenCalls()[0]
	d := policy.Decided(c, policy.Verdict{Action: policy.Block, Rule: "r"})
	again, ok := d.Call()
	if !ok || again.Tool != c.Tool || string(again.Args) != string(c.Args) || again.By.User != "eve" {
		t.Errorf("%+v %t", again, ok)
	}
	if _, ok := (policy.Decision{SHA256: "of something"}).Call(); ok {
		t.Error("arguments that were not kept are taken for none")
	}
	c.Own = policy.Own{Verdict: policy.Ask, Terms: policy.Terms{FourEyes: true}}
	raw, err := json.Marshal(policy.Decided(c, policy.Verdict{Action: policy.Ask}))
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if again, ok := d.Call(); err != nil || !ok || !again.Own.FourEyes {
		t.Errorf("%+v %v", again, err)
	}
	c.Args = []byte(`{"a":"` + strings.Repeat("x", 1<<17) + `"}`)
	if d := policy.Decided(c, policy.Verdict{}); d.Args != nil {
		t.Error("long arguments are kept")
	}
}

func TestWhatAToolWasRegisteredWith(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte("{rules: [{name: r, tool: ruled, verdict: block}], tools: {listed: high}}"))
	if err != nil {
		t.Fatal(err)
	}
	eyes := policy.Own{Verdict: policy.Ask, Terms: policy.Terms{FourEyes: true}}
	grant := policy.Grant{ID: "g", Tool: "x", Match: []byte("{}"), UsesLeft: 1}
	for name, c := range map[string]struct {
		tool string
		own  policy.Own
		want policy.Action
		rule string
	}{
		"a rule goes before":   {"ruled", policy.Own{Verdict: policy.Allow}, policy.Block, "r"},
		"the list goes before": {"listed", policy.Own{Verdict: policy.Allow}, policy.Ask, "tools: listed"},
		"allow":                {"x", policy.Own{Verdict: policy.Allow}, policy.Allow, "tool: x"},
		"no grant lifts it":    {"x", policy.Own{Verdict: policy.Block}, policy.Block, "tool: x"},
		"a grant by nobody":    {"x", eyes, policy.Ask, "tool: x"},
		"a grant answers":      {"x", policy.Own{Verdict: policy.Ask}, policy.Allow, "tool: x"},
		"nothing of that name": {"y", policy.Own{Verdict: "perhaps"}, policy.Ask, "tool: y"},
		"none, and no risk":    {"y", policy.Own{}, policy.Ask, "default"},
	} {
		v := p.Decide(policy.Call{Tool: c.tool, Own: c.own}, []policy.Grant{grant}, time.Time{})
		if v.Action != c.want || v.Rule != c.rule {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for own, want := range map[*policy.Own]bool{
		{}: true, {Verdict: policy.Block}: true, {Verdict: "perhaps"}: false, &eyes: true, {Verdict: policy.Allow, Terms: eyes.Terms}: false, {Terms: eyes.Terms}: true,
		{Verdict: policy.Ask, Terms: policy.Terms{Approvers: policy.Approvers{"ada"}}}: false,
	} {
		if err := own.Check(""); (err == nil) != want {
			t.Errorf("%+v: %v", own, err)
		}
	}
}

// TestOwnTermsWithoutVerdict: without a verdict the risk decides, and where that asks the tool's own terms count.
func TestOwnTermsWithoutVerdict(t *testing.T) {
	t.Parallel()
	yes := true
	mayEdit := policy.Own{Reason: "It pays.", Terms: policy.Terms{MayEdit: &yes}}
	for risk, want := range map[policy.Risk]policy.Action{policy.Low: policy.Allow, policy.Medium: policy.Ask, policy.High: policy.Ask, "": policy.Ask} {
		v := policy.Default().Decide(policy.Call{Tool: "x", Risk: risk, Own: mayEdit}, nil, time.Time{})
		if asks := want == policy.Ask; v.Action != want || v.AllowsEdit() != asks || (v.Reason == "It pays.") != asks {
			t.Errorf("risk %q: %+v", risk, v)
		}
		if err := mayEdit.Check(risk); err != nil {
			t.Errorf("risk %q: %v", risk, err)
		}
	}
	eyes := policy.Own{Terms: policy.Terms{FourEyes: true}}
	if eyes.Check(policy.High) != nil || eyes.Check(policy.Low) == nil {
		t.Error("four_eyes guards a tool that asks no person, or none that asks one")
	}
}
