package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rule is one entry of the file. Conditions that are left out always hold.
//
// A new condition is a field here, a line in matches, a check of its form in check, and where it looks at something that a
// Call does not have yet, a member of Call (call.go) that its callers set. A name for when: is added in when.go, to the
// environment and to what resolves it.
//
// For example:
//
//	rules:
//	  - name: tests
//	    kind: execute
//	    tool: "go test *"
//	    verdict: allow
//	  - name: production
//	    when: args.env == "prod"
//	    verdict: require_approval
//	    approvers: [role:ops]
//	    four_eyes: true
type rule struct {
	Name    string `yaml:"name"`
	Kind    names  `yaml:"kind"`
	Tool    names  `yaml:"tool"` // globs for the tool's name or the title
	Agent   names  `yaml:"agent"`
	who     `yaml:",inline"`
	When    string `yaml:"when"`
	Risk    Risk   `yaml:"risk"`
	Verdict Action `yaml:"verdict"` // left out: what the risk means
	Terms   `yaml:",inline"`
	Reason  string `yaml:"reason"`

	when *expression // When, compiled
}

// matches asks the cheap conditions first; the expression is the last and the only one that may fail.
func (r *rule) matches(q *question) bool {
	return r.Kind.has(q.Kind) && r.Agent.globs(q.AgentID) && r.is(q.By) &&
		r.about(q) && r.holds(q)
}

// about reports whether the rule names the call by tool, title or command.
// An allow needs the name and the arguments to agree; a block or an ask needs only one of them to fit, whatever the
// other claims.
func (r *rule) about(q *question) bool {
	switch {
	case len(r.Tool) == 0:
		return true
	case r.states(q.Tool, q.Kind) || r.states(q.Title, q.Kind):
		return r.Verdict != Allow || r.agrees(q)
	}
	return r.Verdict != Allow && q.stated() && r.runs(q)
}

// holds evaluates the expression. One that fails must not help: what is allowed by it is
// not, what is blocked or asked by it is.
func (r *rule) holds(q *question) bool {
	if r.when == nil {
		return true
	}
	holds, err := r.when.holds(q)
	if err != nil {
		return r.Verdict != Allow
	}
	return holds
}

// states reports whether the text is one the rule is about. What cannot be seen must not
// help: a text with line breaks or other control characters is never allowed by it, since
// "ls*" would let through whatever follows in the next line; and it is blocked or asked
// when the text without them, or any line alone, is what the rule names.
func (r *rule) states(text, kind string) bool {
	clean := plain(text)
	if r.Verdict == Allow {
		return clean == text && r.spells(text, kind == "execute")
	}
	return r.Tool.globs(clean) || slices.ContainsFunc(lines(text), func(line string) bool { return r.Tool.globs(plain(line)) })
}

// spells is glob for what is allowed: the * of "go test *" must not stand for a second
// command.
func (r *rule) spells(text string, command bool) bool {
	return slices.ContainsFunc(r.Tool, func(pattern string) bool {
		return glob(pattern, text) && (!command || sameMeta(pattern, text))
	})
}

// check fills in what the rule leaves out, and refuses what would not do what it seems to.
// A rule that can never match, or that means something else than it seems to, is an error when the file is loaded.
func (r *rule) check() error {
	if r.Verdict == "" && r.Risk.known() {
		r.Verdict = r.Risk.action()
	}
	switch {
	case r.Name == "":
		return errors.New("it needs a name: decisions are kept under it")
	case r.Risk != "" && !r.Risk.known():
		return fmt.Errorf("unknown risk %q; it is low, medium or high", r.Risk)
	case reserved(r.Name):
		return errors.New(`names that begin with "default", "tool: " or "tools: " are those of decisions without a rule`)
	}
	for _, k := range r.Kind {
		if !slices.Contains(kinds(), k) {
			return fmt.Errorf("unknown kind %q; ACP has %v", k, kinds())
		}
	}
	return checkVerdict(r.Verdict, r.Terms)
}

// checkVerdict is of a rule and of what a tool was registered with alike.
func checkVerdict(a Action, t Terms) error {
	switch {
	case a != Allow && a != Ask && a != Block:
		return fmt.Errorf("unknown verdict %q; it is allow, require_approval (or ask) or block", a)
	case a != Ask && t.given():
		return errors.New("ttl, approvers, four_eyes, may_edit, always and grant_ttl are of use only where a person is asked")
	}
	return t.check()
}

// reserved keeps apart, in what is on record, decisions of a rule from those that Policy.byRisk makes without one.
func reserved(name string) bool {
	return strings.HasPrefix(name, "default") || strings.HasPrefix(name, "tool: ") || strings.HasPrefix(name, "tools: ")
}

// kinds are the tool kinds of ACP. A rule of another would never match, and a block rule
// that never matches is worse than none.
func kinds() []string {
	return []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
}
