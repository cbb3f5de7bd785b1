package policy_test

import (
	"strings"
	"testing"

	"aqueduct/policy"
)

func writeCall(args string) policy.Call {
	c := statusCall()
	c.Tool, c.Kind, c.Title, c.Args = "Write", "edit", "Write a.txt", []byte(args)
	return c
}

// TestAlwaysCoversWhatItsLabelNames: each standing answer allows what its button names and nothing
// beside it.
func TestAlwaysCoversWhatItsLabelNames(t *testing.T) {
	t.Parallel()
	const args = `{"file_path":"/w/src/a.txt","content":"x"}`
	standings := policy.Standings(writeCall(args), policy.Verdict{Risk: policy.Medium})
	words := map[policy.Always]string{}
	for _, s := range standings {
		words[s.Always] = s.Words
	}
	for always, want := range map[policy.Always]string{
		policy.AlwaysExact: "always exactly this change in this session, for 30 days", policy.AlwaysFile: "always edits of /w/src/a.txt in this session, for 8 hours",
		policy.AlwaysFolder: "always edits under /w/src/ in this session, for 8 hours", policy.AlwaysTool: "always any Write in this session, for 8 hours",
	} {
		if words[always] != want {
			t.Errorf("%s: %q, want %q", always, words[always], want)
		}
	}
	order := []policy.Always{policy.AlwaysExact, policy.AlwaysFile, policy.AlwaysFolder, policy.AlwaysTool}
	for i, c := range []struct { // each is covered by the standing answer i and by all wider ones
		name string
		call policy.Call
	}{
		{"the same", writeCall(args)},
		{"another content", writeCall(`{"file_path":"/w/src/a.txt","content":"y"}`)},
		{"another file", writeCall(`{"file_path":"/w/src/b.txt","content":"x"}`)},
		{"another folder", writeCall(`{"file_path":"/etc/passwd","content":"x"}`)},
	} {
		for j, always := range order {
			given := writeCall(args)
			given.Always = always
			g, err := policy.GrantFor(given, policy.ForSession)
			if err != nil {
				t.Fatal(err)
			}
			g.ID = "g"
			allowed := policy.Default().Decide(c.call, []policy.Grant{g}, noon()).Grant == "g"
			if allowed != (j >= i) {
				t.Errorf("%s under %s: %v", c.name, always, allowed)
			}
			other := c.call
			other.Tool = "Bash"
			if policy.Default().Decide(other, []policy.Grant{g}, noon()).Grant == "g" || g.Session == "" || g.TTL == 0 {
				t.Errorf("%s: %+v", always, g)
			}
		}
	}
}

// TestTheSameCommandDescribedOtherwise is the same command: models describe it anew each time.
func TestTheSameCommandDescribedOtherwise(t *testing.T) {
	t.Parallel()
	c := statusCall()
	c.Args = []byte(`{"command":"make test","description":"Runs the tests"}`)
	g, err := policy.GrantFor(c, policy.ForSession)
	if err != nil {
		t.Fatal(err)
	}
	g.ID = "g"
	for args, want := range map[string]bool{
		`{"command":"make test","description":"Tests it all"}`: true, `{"command":"make test"}`: true,
		`{"command":"make clean","description":"Runs the tests"}`: false, `{"command":"make test","description":"Runs the tests","cwd":"/"}`: false, `{"command":"make test","cwd":"/"}`: false,
	} {
		c.Args = []byte(args)
		if allowed := policy.Default().Decide(c, []policy.Grant{g}, noon()).Grant == "g"; allowed != want {
			t.Errorf("%s: %v", args, allowed)
		}
	}
	c.Tool, c.Args = "create_issue", []byte(`{"title":"a","description":"b"}`) // here it is what is done
	if g, err = policy.GrantFor(c, policy.ForSession); err != nil {
		t.Fatal(err)
	}
	g.ID = "g"
	c.Args = []byte(`{"title":"a","description":"c"}`)
	if policy.Default().Decide(c, []policy.Grant{g}, noon()).Grant == "g" {
		t.Error("another description is covered")
	}
}

// TestFilesOfAList: of several files all have to be in the folder.
func TestFilesOfAList(t *testing.T) {
	t.Parallel()
	c := writeCall(`{"paths":["/w/src/a","/w/src/b"],"locations":[],"content":[{"type":"diff"}]}`)
	c.Always = policy.AlwaysFolder
	g, err := policy.GrantFor(c, policy.ForSession)
	if err != nil {
		t.Fatal(err)
	}
	g.ID = "g"
	for args, want := range map[string]bool{
		`{"paths":["/w/src/c"],"content":[]}`: true, `{"paths":["/w/src/c","/etc/passwd"]}`: false, `{"paths":[]}`: false, `{"paths":"/w/src/c"}`: false, `{"paths":["/w/src/../x"]}`: false,
	} {
		if allowed := policy.Default().Decide(writeCall(args), []policy.Grant{g}, noon()).Grant == "g"; allowed != want {
			t.Errorf("%s: %v", args, allowed)
		}
	}
}

// TestNoStandingAnswerWithoutTheChange: where only the files are named, the same again could be
// any content.
func TestNoStandingAnswerWithoutTheChange(t *testing.T) {
	t.Parallel()
	for _, s := range policy.Standings(writeCall(`{"paths":["/w/a"],"locations":[],"content":[]}`), policy.Verdict{}) {
		if s.Always == policy.AlwaysExact {
			t.Errorf("%+v", s)
		}
	}
}

// TestAlwaysIsLimited by a rule, and by the risk.
func TestAlwaysIsLimited(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 4, "always: wide": 4, "always: exact": 1, "always: none": 0, "risk: high": 1, "risk: high, always: wide": 4} {
		if text != "" {
			text = ", " + text
		}
		p, err := policy.Parse([]byte("rules: [{name: r, kind: edit, verdict: ask" + text + "}]"))
		if err != nil {
			t.Fatal(err)
		}
		c := writeCall(`{"file_path":"/w/src/a.txt","content":"x"}`)
		if got := policy.Standings(c, p.Decide(c, nil, noon())); len(got) != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for _, bad := range []string{"always: ever", "always: exact, verdict: allow"} {
		if _, err := policy.Parse([]byte("rules: [{name: r, verdict: ask, " + bad + "}]")); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestForAll reads agents' labels.
func TestForAll(t *testing.T) {
	t.Parallel()
	c := writeCall(`{}`)
	for label, want := range map[string]bool{
		"Always Allow all Write": true, "Always allow all `Write`": true, "Allow all edits": true,
		"Always Allow": false, "Always Allow Write(/w/**)": false, "Always Allow all Bash": false, "Yes, and don't ask again for these files": false,
		"Always Allow all Write, access to /etc": false, "Allow all": false, strings.Repeat("all ", 3): false, "Allow all server tools for this session": false,
	} {
		if policy.ForAll(label, c) != want {
			t.Errorf("%q: %v", label, !want)
		}
	}
}
