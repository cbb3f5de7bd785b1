package policy_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/policy"
)

const file = `
rules:
  - name: no-push
    kind: execute
    tool: "git push*"
    agent: claude*
    verdict: block
    reason: Pushing is for people.
  - {name: tests, kind: execute, tool: "go test *", verdict: allow}
  - {name: careful, kind: read, tool: "*/secrets/*", verdict: ask}
  - {name: nothing-else, agent: stranger, verdict: block}
`

func TestDecide(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		call policy.Call
		rule string
	}{
		"title":                          {policy.Call{AgentID: "claude", Kind: "execute", Title: "git push origin feature/x"}, "no-push"},
		"tool":                           {policy.Call{AgentID: "claude-2", Kind: "execute", Tool: "git push", Title: "Ship"}, "no-push"},
		"another agent":                  {policy.Call{AgentID: "codex", Kind: "execute", Title: "git push"}, "default"},
		"another kind":                   {policy.Call{AgentID: "claude", Kind: "other", Title: "git push"}, "default"},
		"no kind":                        {policy.Call{AgentID: "claude", Title: "git push"}, "default"},
		"not at the beginning":           {policy.Call{AgentID: "claude", Kind: "execute", Title: "echo git push"}, "default"},
		"allowed":                        {policy.Call{Kind: "execute", Title: "go test ./a/b", Args: []byte(`{"command":"go test ./a/b"}`)}, "tests"},
		"the first match wins":           {policy.Call{AgentID: "stranger", Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"go test ./..."}`)}, "tests"},
		"no conditions but agent":        {policy.Call{AgentID: "stranger", Kind: "read"}, "nothing-else"},
		"* goes over slashes":            {policy.Call{Kind: "read", Title: "/a/b/secrets/c/d"}, "careful"},
		"what only looks":                {policy.Call{Kind: "read", Title: "/a/b", Folder: "/a"}, "default-read"},
		"what searches":                  {policy.Call{Kind: "search"}, "default-search"},
		"blocked in a later line":        {policy.Call{AgentID: "claude", Kind: "execute", Title: "ls\ngit push"}, "no-push"},
		"blocked over a line break":      {policy.Call{AgentID: "claude", Kind: "execute", Title: "git\n push"}, "no-push"},
		"blocked with a NUL":             {policy.Call{AgentID: "claude", Kind: "execute", Title: "\x00git\x00push"}, "no-push"},
		"blocked with what is unseen":    {policy.Call{AgentID: "claude", Kind: "execute", Title: "\u202egit\u200b pu\u200dsh"}, "no-push"},
		"not allowed: a second line":     {policy.Call{Kind: "execute", Title: "go test ./...\nrm -rf /"}, "default"},
		"not allowed: carriage return":   {policy.Call{Kind: "execute", Title: "rm -rf /\rgo test ./..."}, "default"},
		"not allowed: a line separator":  {policy.Call{Kind: "execute", Title: "go test ./...\u2028rm"}, "default"},
		"not allowed: written backwards": {policy.Call{Kind: "execute", Title: "go test \u202e/ fr- mr"}, "default"},
	} {
		if v := p.Decide(c.call, nil, time.Time{}); v.Rule != c.rule {
			t.Errorf("%s: %+v, want %s", name, v, c.rule)
		}
	}
	v := p.Decide(policy.Call{AgentID: "claude", Kind: "execute", Title: "git push"}, nil, time.Time{})
	if v.Action != policy.Block || v.Reason != "Pushing is for people." {
		t.Errorf("%+v", v)
	}
}

func TestDefaultAsksForAllThatDoesSomething(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "edit", "delete", "move", "execute", "think", "fetch", "switch_mode", "other", "READ"} {
		if v := policy.Default().Decide(policy.Call{Kind: kind}, nil, time.Time{}); v.Action != policy.Ask {
			t.Errorf("%q: %+v", kind, v)
		}
	}
	for _, kind := range []string{"read", "search"} {
		if v := policy.Default().Decide(policy.Call{Kind: kind}, nil, time.Time{}); v.Action != policy.Allow {
			t.Errorf("%q: %+v", kind, v)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rules: [{name: a, verdict: deny}]":                         `unknown verdict "deny"`,
		"rules: [{name: a}]":                                        `unknown verdict ""`,
		"rules: [{verdict: ask}]":                                   "needs a name",
		"rules: [{name: a, verdict: ask}, {name: a, verdict: ask}]": `"a" is taken`,
		"rules: [{name: a, kind: exec, verdict: block}]":            `unknown kind "exec"`,
		"rules: [{name: a, verdict: ask, tools: x}]":                "tools not found",
		"rule: []": "rule not found",
		"rules: [{name: a, verdict: ask}]\n---\nrules: []": "more than one document",
		"rules: {": "policy: ",
		"rules: [{name: a, name: b, verdict: ask}]": "already defined",
	} {
		if _, err := policy.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, empty := range []string{"", "# nothing\n", "rules:\n", "rules: []", "templates:\ntools:\nrules:\n"} {
		if _, err := policy.Parse([]byte(empty)); err == nil || !strings.Contains(err.Error(), "holds no rule") {
			t.Errorf("%q: %v", empty, err)
		}
	}
}
