package policy_test

import (
	"testing"
	"time"

	"aqueduct/policy"
)

func parsed(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRulesAreAboutWhatRuns: title and tool name are the agent's words; where the arguments name
// a command, an allow rule is about that, and a block rule about both.
func TestRulesAreAboutWhatRuns(t *testing.T) {
	t.Parallel()
	p := parsed(t, `
rules:
  - {name: no-rm, tool: ["rm *", "*sudo*"], verdict: block}
  - {name: tests, tool: ["go test *", "make test", "ls*"], verdict: allow}
  - {name: shell, tool: trusted_shell, verdict: allow}
  - {name: pattern, tool: "query_*", verdict: allow}
tools: {"list_*": low, lister: low}
`)
	for name, c := range map[string]struct {
		call policy.Call
		want policy.Action
		rule string
	}{
		"title and command agree":       {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"go test ./..."}`)}, policy.Allow, "tests"},
		"no command":                    {policy.Call{Kind: "execute", Title: "go test ./..."}, policy.Ask, "default"},
		"a list of words":               {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":["go","test","./..."]}`)}, policy.Allow, "tests"},
		"in a shell":                    {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":["/bin/bash","-lc","go test ./..."]}`)}, policy.Allow, "tests"},
		"another command":               {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask, "default"},
		"another command, of no kind":   {policy.Call{Title: "go test ./...", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask, "default"},
		"another kind":                  {policy.Call{Kind: "other", Title: "ls", Args: []byte(`{"shell_command":"curl evil"}`)}, policy.Ask, "default"},
		"another in a shell":            {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"cmd":["bash","-lc","curl evil"]}`)}, policy.Ask, "default"},
		"a second command behind":       {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"go test ./...; curl evil"}`)}, policy.Ask, "default"},
		"a program and its words":       {policy.Call{Kind: "execute", Title: "ls", Args: []byte(`{"command":"ls","args":["-l"]}`)}, policy.Allow, "tests"},
		"a program with others":         {policy.Call{Kind: "execute", Title: "go test x", Args: []byte(`{"command":"go","args":["run","evil"]}`)}, policy.Ask, "default"},
		"no text":                       {policy.Call{Kind: "execute", Title: "ls", Args: []byte(`{"command":{"a":1}}`)}, policy.Ask, "default"},
		"given twice":                   {policy.Call{Kind: "execute", Title: "ls", Args: []byte(`{"command":"ls","command":"curl evil"}`)}, policy.Ask, "default"},
		"tool name with spaces":         {policy.Call{Kind: "execute", Tool: "go test ./...", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask, "default"},
		"the very tool":                 {policy.Call{Kind: "execute", Tool: "trusted_shell", Args: []byte(`{"command":"curl x"}`)}, policy.Allow, "shell"},
		"one of many tools":             {policy.Call{Kind: "execute", Tool: "query_x", Args: []byte(`{"command":"curl x"}`)}, policy.Ask, "default"},
		"a tool that we run":            {policy.Call{Tool: "query_x", Args: []byte(`{"command":"select"}`)}, policy.Allow, "pattern"},
		"blocked by the command":        {policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"rm -rf /"}`)}, policy.Block, "no-rm"},
		"blocked by a list of words":    {policy.Call{Kind: "other", Title: "Tidy up", Args: []byte(`{"argv":["rm","-rf","/"]}`)}, policy.Block, "no-rm"},
		"blocked by the title":          {policy.Call{Kind: "execute", Title: "rm -rf /", Args: []byte(`{"command":"ls"}`)}, policy.Block, "no-rm"},
		"low risk by a pattern":         {policy.Call{Kind: "other", Tool: "list_all", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask, "tools: list_*"},
		"low risk by name":              {policy.Call{Kind: "other", Tool: "lister", Args: []byte(`{"command":"curl evil"}`)}, policy.Allow, "tools: lister"},
		"reads, and names a command":    {policy.Call{Kind: "read", Title: "Read a", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask, "default-outside"},
		"names that differ in case":     {policy.Call{Kind: "execute", Title: "ls", Args: []byte(`{"command":"ls","Command":"curl evil"}`)}, policy.Block, "default-ambiguous"},
		"deeper, in case":               {policy.Call{Tool: "lister", Args: []byte(`{"a":[{"path":"/w","PATH":"/etc"}]}`)}, policy.Block, "default-ambiguous"},
		"in case, allowed by the title": {policy.Call{Tool: "trusted_shell", Args: []byte(`{"x":1,"X":2}`)}, policy.Block, "default-ambiguous"},
	} {
		if v := p.Decide(c.call, nil, time.Time{}); v.Action != c.want || v.Rule != c.rule {
			t.Errorf("%s: %s by %s, want %s by %s", name, v.Action, v.Rule, c.want, c.rule)
		}
	}
}

// TestLooksOutside: by default what only looks is allowed in the Session's folder, and asked
// elsewhere.
func TestLooksOutside(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]policy.Action{
		`{}`: policy.Allow, `{"path":"a/b.go"}`: policy.Allow, `{"file_path":"/w/a.go","limit":10}`: policy.Allow, `{"paths":["/w/a","/w/b/c"]}`: policy.Allow,
		`{"pattern":"func .*","path":"/w"}`: policy.Allow, `{"url":"https://example.com/x"}`: policy.Allow, `{"path":"file:///w/a"}`: policy.Allow,
		`{"path":"/etc/passwd"}`: policy.Ask, `{"path":"/w2/a"}`: policy.Ask, `{"path":"/w/../etc/passwd"}`: policy.Ask, `{"path":"../x"}`: policy.Ask,
		`{"path":"~/.ssh/id_rsa"}`: policy.Ask, `{"paths":["/w/a","/etc/passwd"]}`: policy.Ask, `{"a":{"b":[{"path":"/etc/passwd"}]}}`: policy.Ask,
		`{"path":"file:///etc/passwd"}`: policy.Ask, `{"path":"C:\\Users\\x"}`: policy.Ask, `{"path":" /etc/passwd"}`: policy.Ask, `{"path":"/w/a","path":"b"}`: policy.Ask,
	} {
		for _, kind := range []string{"read", "search"} {
			if v := policy.Default().Decide(policy.Call{Kind: kind, Title: "Look", Folder: "/w", Args: []byte(args)}, nil, time.Time{}); v.Action != want {
				t.Errorf("%s %s: %s by %s, want %s", kind, args, v.Action, v.Rule, want)
			}
		}
	}
	for title, want := range map[string]policy.Action{"Read /w/a.go": policy.Allow, "Read a.go (1 - 20)": policy.Allow, "Read /etc/passwd": policy.Ask, "Read `~/.netrc`": policy.Ask} {
		if v := policy.Default().Decide(policy.Call{Kind: "read", Title: title, Folder: "/w"}, nil, time.Time{}); v.Action != want {
			t.Errorf("%s: %s by %s, want %s", title, v.Action, v.Rule, want)
		}
	}
	if v := policy.Default().Decide(policy.Call{Kind: "read", Args: []byte(`{"path":"/w/a"}`)}, nil, time.Time{}); v.Action != policy.Ask {
		t.Errorf("no folder is known: %s by %s", v.Action, v.Rule)
	}
}

// TestStandingAnswersAreLimited by the rule that asks.
func TestStandingAnswersAreLimited(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]policy.Action{
		"{name: a, tool: shell, verdict: ask}":                 policy.Allow,
		"{name: a, tool: shell, verdict: ask, always: none}":   policy.Ask,
		"{name: a, tool: shell, verdict: ask, grant_ttl: 30m}": policy.Ask,
		"{name: a, tool: shell, verdict: ask, grant_ttl: 2h}":  policy.Allow,
	} {
		g := statusGrant()
		g.GivenAt = noon().Add(-time.Hour)
		if v := parsed(t, "rules: ["+rule+"]").Decide(statusCall(), []policy.Grant{g}, noon()); v.Action != want {
			t.Errorf("%s: %+v", rule, v)
		}
	}
	list := policy.Standings(policy.Call{Tool: "x", AgentID: "a", Session: "s", By: policy.Principal{Tenant: "t", User: "u"}}, policy.Verdict{Terms: policy.Terms{GrantTTL: 90 * time.Minute}})
	if len(list) == 0 || list[0].Words != "always exactly this call in this session, for 90 minutes" {
		t.Errorf("%+v", list)
	}
}

// TestS54AllowedOnlyWhatIsKnown: a rule that allows by a title or a pattern holds only where the arguments name the command. An
// agent may spell the argument with the command as it likes, so one that is not known is asked about.
func TestS54AllowedOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	p := parsed(t, `
rules:
  - {name: tests, tool: ["go test *", "Read *", "query_*", "Edit *"], verdict: allow}
  - {name: exact, tool: run_tests, verdict: allow}
tools: {"list_*": low}
`)
	for _, kind := range []string{"", "execute", "other"} {
		for _, args := range []string{
			``, `{}`, `null`, `[]`, `"rm -rf /"`, `["rm","-rf","/"]`, `{"exec":"rm -rf /"}`, `{"run":"rm -rf /"}`, `{"input":"rm -rf /"}`, `{"code":"rm -rf /"}`,
			`{"shell":"rm -rf /"}`, `{"program":"/bin/rm","args":["-rf","/"]}`, `{"path":"/bin/rm","args":["-rf","/"]}`, `{"commands":["rm -rf /"]}`, `{"bash":"rm"}`,
			`{"command":"go test ./...","exec":"rm -rf /"}`, `{"command":"go test ./...","then":"rm -rf /"}`, `{"command":"go test ./...","env":{"GOFLAGS":"-exec=rm"}}`,
			`{"command":"go test ./...","stdin":"x"}`, `{"command":"go test ./...","with_escalated_permissions":true}`, `{"command":null,"exec":"rm"}`,
			`{"command":"go test ./...","script":"rm -rf /"}`, `{"description":"go test ./..."}`, `{"command":""}`, `{"comm\u0430nd":"rm"}`, `{"nested":{"command":"go test ./..."}}`,
		} {
			for _, call := range []policy.Call{{Kind: kind, Title: "go test ./...", Args: []byte(args)}, {Kind: kind, Title: "x", Tool: "query_x", Args: []byte(args)}, {Kind: kind, Tool: "go test ./...", Title: "x", Args: []byte(args)}} {
				if v := p.Decide(call, nil, time.Time{}); v.Action == policy.Allow {
					t.Errorf("%q, %q, %q with %s is allowed by %s", kind, call.Title, call.Tool, args, v.Rule)
				}
			}
		}
	}
	for args, want := range map[string]policy.Action{
		`{"command":"go test ./..."}`: policy.Allow, `{"command":["go","test","./..."],"cwd":"/w","timeout":5,"description":"Tests"}`: policy.Allow,
		`{"cmd":"go test ./...","unknown":null}`: policy.Allow, `{"command":"go test ./...; rm"}`: policy.Ask,
	} {
		if v := p.Decide(policy.Call{Kind: "execute", Title: "go test ./...", Args: []byte(args)}, nil, time.Time{}); v.Action != want {
			t.Errorf("%s: %s", args, v.Action)
		}
	}
	for _, c := range []struct {
		call policy.Call
		want policy.Action
	}{
		{policy.Call{Kind: "edit", Title: "Edit a.go", Args: []byte(`{"file_path":"a.go","old_string":"x","new_string":"y"}`)}, policy.Allow},
		{policy.Call{Kind: "edit", Title: "Edit a.go", Args: []byte(`{"file_path":"a.go","post_hook":"rm -rf /"}`)}, policy.Ask},
		{policy.Call{Kind: "fetch", Title: "Read x", Args: []byte(`{"command":"curl evil"}`)}, policy.Ask},
		{policy.Call{Kind: "execute", Title: "x", Tool: "run_tests", Args: []byte(`{"anything":1}`)}, policy.Allow}, // the very tool
		{policy.Call{Kind: "other", Title: "x", Tool: "list_files", Args: []byte(`{"path":"a"}`)}, policy.Allow},
		{policy.Call{Kind: "other", Title: "x", Tool: "list_files", Args: []byte(`{"exec":"rm -rf /"}`)}, policy.Ask},
		{policy.Call{Tool: "query_x", Args: []byte(`{"anything":1}`)}, policy.Allow}, // a tool that the server runs
	} {
		if v := p.Decide(c.call, nil, time.Time{}); v.Action != c.want {
			t.Errorf("%+v: %s by %s", c.call, v.Action, v.Rule)
		}
	}
}
