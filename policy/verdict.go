package policy

// Action is what is to be done with a call.
type Action string

// The Actions.
const (
	Allow Action = "allow" // without asking a person
	Ask   Action = "ask"   // a person decides; in files also require_approval
	Block Action = "block" // without asking a person; the agent gets a refusal
)

// UnmarshalText reads an Action, also by the name that the platform contract has for Ask.
func (a *Action) UnmarshalText(text []byte) error {
	if *a = Action(text); *a == "require_approval" {
		*a = Ask
	}
	return nil
}

// MarshalText writes that name.
func (a Action) MarshalText() ([]byte, error) {
	if a == Ask {
		return []byte("require_approval"), nil
	}
	return []byte(a), nil
}

// Verdict is what a Policy makes of a Call.
type Verdict struct {
	Action Action
	Rule   string // the name of the rule that matched
	Reason string
	Risk   Risk
	Grant  string // id of the Grant that made an Ask an Allow; a use of it has to be taken
	Terms         // how a person has to be asked; of use when Action is Ask
}
