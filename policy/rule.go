package policy

// rule is one entry of the file. Conditions that are left out always hold.
type rule struct {
	Name    string `yaml:"name"`
	Kind    string `yaml:"kind"`
	Tool    string `yaml:"tool"` // a glob for the tool's name or the title
	Agent   string `yaml:"agent"`
	Verdict Action `yaml:"verdict"`
	Reason  string `yaml:"reason"`
}

func (r rule) matches(c Call) bool {
	if r.Kind != "" && r.Kind != c.Kind {
		return false
	}
	if r.Agent != "" && !glob(r.Agent, c.AgentID) {
		return false
	}
	return r.Tool == "" || r.states(c.Tool) || r.states(c.Title)
}

// states reports whether the text is one the rule is about. What cannot be seen must not
// help: a text with line breaks or other control characters is never allowed by it, since
// "ls*" would let through whatever follows in the next line; and it is blocked or asked
// when the text without them, or any line alone, is what the rule names.
func (r rule) states(text string) bool {
	clean := plain(text)
	if r.Verdict == Allow {
		return clean == text && glob(r.Tool, text)
	}
	if glob(r.Tool, clean) {
		return true
	}
	for _, line := range lines(text) {
		if glob(r.Tool, plain(line)) {
			return true
		}
	}
	return false
}
