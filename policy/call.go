package policy

// Principal is who has an agent act: the one who prompted it. It converts from
// store.Principal.
type Principal struct {
	Tenant string
	User   string
	Roles  []string
}

// same reports whether both are one user. Nobody is the same as nobody.
func (p Principal) same(as Principal) bool {
	return p.User != "" && p.User == as.User && p.Tenant == as.Tenant
}

// Call is the use of a tool that is to be judged.
type Call struct {
	AgentID string
	Session string
	Tool    string
	Kind    string // ACP's tool kind, "" when not told
	Title   string // what an agent says it does, as it came, never as it is shown; "" for tools we run
	Args    []byte // JSON; none is {}
	Folder  string // where the Session's agent works, absolute; "" when not known
	Risk    Risk   // of whoever registered the tool, never the agent's word; "" when not told
	Own     Own    // likewise
	Always  Always // which calls a standing answer to it is to cover; for GrantFor only
	By      Principal
}

// Own is what a tool was registered with. It decides where no rule and no tools section of
// the file does; Grants answer what it asks, on its Terms, and never lift its block.
type Own struct {
	Verdict Action `json:"verdict,omitempty"` // "": what the Risk means
	Reason  string `json:"reason,omitempty"`
	Terms
}

// Check says what is wrong with what a tool was registered with.
func (o Own) Check() error {
	if o.Verdict == "" && !o.given() {
		return nil
	}
	return checkVerdict(o.Verdict, o.Terms)
}

// question is a Call being judged. Its arguments are read when first looked at.
type question struct {
	Call
	args    arguments
	forExpr any // args in the form of expressions
}
