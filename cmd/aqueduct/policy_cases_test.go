package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// aqueduct runs a command and returns what it printed.
func policyCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, log bytes.Buffer
	err := run(t.Context(), append([]string{"policy"}, args...), func(string) (string, bool) { return "", false }, output{&out, &log})
	return out.String(), err
}

func TestPolicyTest(t *testing.T) {
	t.Parallel()
	out, err := policyCommand(t, "test", "../../policy/testdata/example.yaml", "testdata/policy_cases.yaml")
	if err != nil || !strings.HasSuffix(out, " 0 failed\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestPolicyTestPrintsWhatFails(t *testing.T) {
	t.Parallel()
	rules := written(t, "p.yaml", "rules: [{name: no, tool: x, verdict: block, reason: Never.}]")
	out, err := policyCommand(t, "test", rules, written(t, "c.yaml", `
- {name: one, call: {tool: x}, want: {verdict: allow}}
- {name: two, call: {tool: x}, want: {verdict: block, rule: yes}}
- {name: three, call: {tool: x}, want: {verdict: block, rule: "no", risk: high}}
- {name: four, call: {tool: y}, want: {verdict: require_approval, grant: g}}
- {name: five, call: {tool: y}, want: {verdict: require_approval}}
`))
	if err == nil || err.Error() != "4 of 5 cases failed" {
		t.Errorf("%v", err)
	}
	want := `FAIL one: verdict block by rule "no" (Never.), want allow
FAIL two: verdict block as wanted, but by rule "no", want "yes"
FAIL three: risk "medium" by rule "no", want "high"
FAIL four: grant "", want "g"
5 cases, 4 failed
`
	if out != want {
		t.Errorf("%s", out)
	}
}

func TestPolicyTestRefuses(t *testing.T) {
	t.Parallel()
	rules := written(t, "p.yaml", "tools: {x: low}")
	for text, want := range map[string]string{
		"": "no cases", "- {name: a}": `unknown verdict ""`, "- {name: a, want: {verdict: ask}}": "either a call or may_use", "- {nam: a}": "nam not found",
		"- {name: a, call: {tool: x}, grants: [{tool: x}], want: {verdict: ask}}": "a match is an object",
		"- {name: a, call: {tool: x}, templates: [x], want: {verdict: ask}}":      `no template "x"`,
		"- {name: a, call: {tool: x}, may_use: y, want: {verdict: ask}}":          "either a call or may_use",
		"- {name: a, call: {tool: x}, from: y, want: {verdict: ask}}":             "from is the agent that calls",
		"- {name: a, call: {args: {1: 2}}, want: {verdict: ask}}":                 "unsupported type",
		"- {name: a, call: {tool: x}, now: yesterday, want: {verdict: ask}}":      "parsing time",
	} {
		if _, err := policyCommand(t, "test", rules, written(t, "c.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := policyCommand(t, "test", written(t, "p.yaml", "rules: [{verdict: ask}]"), rules); err == nil || !strings.Contains(err.Error(), "needs a name") {
		t.Errorf("%v", err)
	}
}
