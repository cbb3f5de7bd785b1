package policy

import "errors"

// Principal is who has an agent act: the one who prompted it. It converts from
// store.Principal.
type Principal struct {
	Tenant string
	User   string
	Roles  []string
}

// same reports whether both are one user. A Principal without a name is never the same as another.
func (p Principal) same(as Principal) bool {
	return p.User != "" && p.User == as.User && p.Tenant == as.Tenant
}

// Call is the use of a tool that is to be judged.
//
// Of a tool that Aqueduct executes, Tool and Args are certain. Of an ACP agent's permission, all of it is what the
// agent states (Policy's package comment).
type Call struct {
	AgentID string
	Session string
	Tool    string
	Kind    string // ACP's tool kind, "" when unknown
	Title   string // what an agent claims it does, as it came, never as it is shown; "" for tools we run
	Args    []byte // JSON; none is {}
	Folder  string // where the Session's agent works, absolute; "" when not known
	Risk    Risk   // from the tool's registration, never the agent's claim; "" when unknown
	Own     Own    // likewise
	Always  Always // which calls a standing answer to it is to cover; for GrantFor only
	By      Principal
}

// Own is what a tool was registered with. It decides where no rule and no tools section of
// the file does; Grants answer what it asks, on its Terms, and never lift its block.
type Own struct {
	Verdict Action `json:"verdict,omitempty"` // "": the Risk decides; the Terms apply if that asks
	Reason  string `json:"reason,omitempty"`
	Terms
}

// Check returns an error if the terms with which a tool of this Risk was registered conflict. A tool of low risk without a
// verdict asks no person, so its approvers and four_eyes would have no effect.
func (o Own) Check(risk Risk) error {
	switch {
	case o.Verdict != "":
		return checkVerdict(o.Verdict, o.Terms)
	case risk.known() && risk.action() == Allow && o.special():
		return errors.New("approvers and four_eyes need the verdict require_approval, or a risk above low: a tool of low risk asks no person")
	}
	return o.check()
}

// question is a Call being judged, by one goroutine. Its arguments are read when first looked at, once for all rules.
type question struct {
	Call
	args    arguments
	forExpr any // args in the form of expressions
}
