package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"aqueduct/policy"
)

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func statusCall() policy.Call {
	return policy.Call{
		AgentID: "claude", Session: "s1", Tool: "shell", Kind: "execute", Title: "Look around", Args: []byte(`{"command":"git status"}`),
		By: policy.Principal{Tenant: "acme", User: "eve", Roles: []string{"dev"}},
	}
}

func statusGrant() policy.Grant {
	return policy.Grant{ID: "g1", Tenant: "acme", Tool: "shell", Match: []byte(`{"command":{"argv":["git","status"]}}`), UsesLeft: 1, ExpiresAt: noon().Add(time.Second)}
}

func TestGrantsAnswerAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grant func(*policy.Grant)
		call  func(*policy.Call)
		want  bool
	}{
		"as it is":                  {want: true},
		"another argument":          {call: func(c *policy.Call) { c.Args = []byte(`{"command":"git status; rm -rf /"}`) }},
		"swapped arguments":         {call: func(c *policy.Call) { c.Args = []byte(`{"command":"git push"}`) }},
		"no arguments":              {call: func(c *policy.Call) { c.Args = nil }},
		"arguments said twice":      {call: func(c *policy.Call) { c.Args = []byte(`{"command":"rm","command":"git status"}`) }},
		"another tool":              {call: func(c *policy.Call) { c.Tool = "shell2" }},
		"a tool that looks alike":   {call: func(c *policy.Call) { c.Tool = "shell\u200b" }},
		"another tenant's call":     {call: func(c *policy.Call) { c.By.Tenant = "umbrella" }},
		"another tenant's grant":    {grant: func(g *policy.Grant) { g.Tenant = "umbrella" }},
		"nobody's grant":            {grant: func(g *policy.Grant) { g.Tenant = "" }},
		"this user":                 {grant: func(g *policy.Grant) { g.User = "eve" }, want: true},
		"another user":              {grant: func(g *policy.Grant) { g.User = "bob" }},
		"this session":              {grant: func(g *policy.Grant) { g.Session = "s1" }, want: true},
		"another session":           {grant: func(g *policy.Grant) { g.Session = "s2" }},
		"this agent":                {grant: func(g *policy.Grant) { g.Agent = "claude" }, want: true},
		"another agent":             {grant: func(g *policy.Grant) { g.Agent = "claud" }},
		"no glob":                   {grant: func(g *policy.Grant) { g.Agent = "cl*" }},
		"this kind":                 {grant: func(g *policy.Grant) { g.Kind = "execute" }, want: true},
		"another kind":              {grant: func(g *policy.Grant) { g.Kind = "read" }},
		"expired just now":          {grant: func(g *policy.Grant) { g.ExpiresAt = noon() }},
		"without end":               {grant: func(g *policy.Grant) { g.ExpiresAt = time.Time{} }, want: true},
		"used up":                   {grant: func(g *policy.Grant) { g.UsesLeft = 0 }},
		"a count that cannot be":    {grant: func(g *policy.Grant) { g.UsesLeft = -2 }},
		"not counted":               {grant: func(g *policy.Grant) { g.UsesLeft = policy.Unlimited }, want: true},
		"without a match":           {grant: func(g *policy.Grant) { g.Match = nil }},
		"a match that is none":      {grant: func(g *policy.Grant) { g.Match = []byte(`{"command":`) }},
		"without an id":             {grant: func(g *policy.Grant) { g.ID = "" }},
		"with the title":            {grant: func(g *policy.Grant) { g.Match = []byte(`{"@title":"Look around","*":true}`) }, want: true},
		"with another title":        {grant: func(g *policy.Grant) { g.Match = []byte(`{"@title":"Look","*":true}`) }},
		"an argument @title":        {grant: func(g *policy.Grant) { g.Match = []byte(`{"\\@title":"Look around","*":true}`) }},
		"any arguments":             {grant: func(g *policy.Grant) { g.Match = []byte(`{"*":true}`) }, want: true},
		"arguments that are a list": {grant: func(g *policy.Grant) { g.Match = []byte(`{"*":true}`) }, call: func(c *policy.Call) { c.Args = []byte(`["rm"]`) }},
	} {
		g, call := statusGrant(), statusCall()
		if c.grant != nil {
			c.grant(&g)
		}
		if c.call != nil {
			c.call(&call)
		}
		v := policy.Default().Decide(call, []policy.Grant{g}, noon())
		if (v.Action == policy.Allow) != c.want || c.want && v.Grant != "g1" || !c.want && (v.Grant != "" || v.Action != policy.Ask) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestGrantsNeverLiftABlock(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte("rules: [{name: no, tool: shell, verdict: block}]"))
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(statusCall(), []policy.Grant{statusGrant()}, noon()); v.Action != policy.Block || v.Grant != "" {
		t.Errorf("%+v", v)
	}
	c := statusCall()
	c.Kind, c.Args = "read", nil
	if v := policy.Default().Decide(c, []policy.Grant{statusGrant()}, noon()); v.Action != policy.Allow || v.Grant != "" {
		t.Errorf("a use is taken for what is allowed anyway: %+v", v)
	}
}

func TestTheFirstGrantThatCoversIsUsed(t *testing.T) {
	t.Parallel()
	other, first, second := statusGrant(), statusGrant(), statusGrant()
	other.Tool, first.ID, second.ID = "other", "a", "b"
	if v := policy.Default().Decide(statusCall(), []policy.Grant{other, first, second}, noon()); v.Grant != "a" || v.Rule != "default" {
		t.Errorf("%+v", v)
	}
}

// A Grant is an answer given before: only by those who could give it now.
func TestGrantsNeedAGiverWhoMayApprove(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte("rules: [{name: two, tool: shell, verdict: ask, four_eyes: true, approvers: [\"role:lead\"]}]"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		giver policy.Principal
		want  policy.Action
	}{
		"nobody":          {policy.Principal{}, policy.Ask},
		"who prompts":     {policy.Principal{Tenant: "acme", User: "eve", Roles: []string{"lead"}}, policy.Ask},
		"without a role":  {policy.Principal{Tenant: "acme", User: "bob"}, policy.Ask},
		"of elsewhere":    {policy.Principal{Tenant: "umbrella", User: "bob", Roles: []string{"lead"}}, policy.Ask},
		"who may approve": {policy.Principal{Tenant: "acme", User: "bob", Roles: []string{"lead"}}, policy.Allow},
	} {
		g := statusGrant()
		g.GivenBy = c.giver
		if v := p.Decide(statusCall(), []policy.Grant{g}, noon()); v.Action != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestGrantForIsTheNarrowest(t *testing.T) {
	t.Parallel()
	call := statusCall()
	call.Args = []byte(`{"command":"git status; ls","*":true,"@title":"x","\\":0,"o":{"glob":"*"},"n":9007199254740993}`)
	g, err := policy.GrantFor(call, policy.ForSession)
	if err != nil {
		t.Fatal(err)
	}
	if g.Tenant != "acme" || g.User != "eve" || g.Session != "s1" || g.Agent != "claude" || g.Tool != "shell" || g.Kind != "execute" || g.UsesLeft != policy.Unlimited {
		t.Errorf("%+v", g)
	}
	g.ID = "g"
	allowed := func(change func(*policy.Call)) bool {
		c := call
		change(&c)
		return policy.Default().Decide(c, []policy.Grant{g}, noon()).Grant == "g"
	}
	if !allowed(func(*policy.Call) {}) {
		t.Errorf("%s does not cover what it was given for", g.Match)
	}
	for name, change := range map[string]func(*policy.Call){
		"session": func(c *policy.Call) { c.Session = "s2" },
		"title":   func(c *policy.Call) { c.Title = "rm -rf /" },
		"user":    func(c *policy.Call) { c.By.User = "bob" },
		"args":    func(c *policy.Call) { c.Args = []byte(`{}`) },
		"object": func(c *policy.Call) {
			c.Args = []byte(`{"command":"git status; ls","*":true,"@title":"x","\\":0,"o":"any","n":9007199254740993}`)
		},
		"number": func(c *policy.Call) {
			c.Args = []byte(`{"command":"git status; ls","*":true,"@title":"x","\\":0,"o":{"glob":"*"},"n":9007199254740992}`)
		},
	} {
		if allowed(change) {
			t.Errorf("another %s is covered", name)
		}
	}
}

func TestGrantForReaches(t *testing.T) {
	t.Parallel()
	for scope, want := range map[policy.Scope][2]string{policy.ForSession: {"eve", "s1"}, policy.ForUser: {"eve", ""}, policy.ForAgent: {"", ""}, "": {"eve", "s1"}, "all": {"eve", "s1"}} {
		g, err := policy.GrantFor(statusCall(), scope)
		if err != nil || g.User != want[0] || g.Session != want[1] || g.Agent != "claude" {
			t.Errorf("%q: %+v %v", scope, g, err)
		}
	}
	for name, change := range map[string]func(*policy.Call){
		"a list":      func(c *policy.Call) { c.Args = []byte(`[]`) },
		"two senses":  func(c *policy.Call) { c.Args = []byte(`{"a":1,"a":2}`) },
		"no JSON":     func(c *policy.Call) { c.Args = []byte(`{`) },
		"no user":     func(c *policy.Call) { c.By.User = "" },
		"no tenant":   func(c *policy.Call) { c.By.Tenant = "" },
		"no session":  func(c *policy.Call) { c.Session = "" },
		"no agent":    func(c *policy.Call) { c.AgentID = "" },
		"bottomless":  func(c *policy.Call) { c.Args = json.RawMessage(`{"a":` + deep(100) + `}`) },
		"a text only": func(c *policy.Call) { c.Args = []byte(`"rm"`) },
	} {
		c := statusCall()
		change(&c)
		if g, err := policy.GrantFor(c, policy.ForUser); err == nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func deep(n int) string {
	out := ""
	for range n {
		out += "["
	}
	for range n {
		out += "]"
	}
	return out
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	p := example(t)
	all := p.Templates()
	if len(all) != 1 || all[0].Name != "look-around" || all[0].TTL != 8*time.Hour || len(all[0].Grants) != 4 {
		t.Fatalf("%+v", all)
	}
	grants := p.Template("look-around")
	for i := range grants {
		grants[i].ID, grants[i].Tenant = "g", "acme"
	}
	if grants[3].UsesLeft != 10 || grants[0].UsesLeft != policy.Unlimited {
		t.Errorf("%+v", grants)
	}
	for args, want := range map[string]policy.Action{`{"path":"/w/a"}`: policy.Allow, `{"path":"/w2/a"}`: policy.Ask} {
		if v := p.Decide(policy.Call{Tool: "read_file", Args: []byte(args), By: policy.Principal{Tenant: "acme"}}, grants, noon()); v.Action != want {
			t.Errorf("%s: %+v", args, v)
		}
	}
	if v := p.Decide(policy.Call{Tool: "read_file", Args: []byte(`{"path":"/w/a"}`)}, p.Template("look-around"), noon()); v.Action != policy.Ask {
		t.Errorf("a template that nobody gave: %+v", v)
	}
	if g := p.Template("nothing"); g != nil {
		t.Errorf("%+v", g)
	}
}
