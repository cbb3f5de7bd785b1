package policy

import (
	"encoding/json"
	"errors"
)

// Scope is how far an "always" reaches.
type Scope string

// The Scopes, from the narrowest.
const (
	ForSession Scope = "session" // this Session
	ForUser    Scope = "user"    // all Sessions of who prompted, with this agent
	ForAgent   Scope = "agent"   // whoever of the tenant prompts this agent
)

// GrantFor is the narrowest Grant that an "always" to this call can mean: the same agent,
// tool, kind and title with the same arguments. Id, end, count and giver are the caller's
// to fill in. It fails where the arguments cannot be told from others.
func GrantFor(c Call, s Scope) (Grant, error) {
	args, err := readStrictly(c.Args)
	if err != nil {
		return Grant{}, err
	}
	fields, ok := args.(map[string]any)
	switch {
	case !ok:
		return Grant{}, errors.New("policy: an always needs arguments that are an object")
	case c.By.Tenant == "" || c.By.User == "" || c.AgentID == "" || c.Session == "":
		return Grant{}, errors.New("policy: an always needs to know whose call it is")
	}
	g := Grant{
		Tenant: c.By.Tenant, Tool: c.Tool, Kind: c.Kind, Agent: c.AgentID,
		Match: exactly(c.Title, fields), UsesLeft: Unlimited,
	}
	if !g.fits(&question{Call: c}) {
		return Grant{}, errors.New("policy: an always cannot be written down for this call")
	}
	if s != ForAgent {
		g.User = c.By.User
	}
	if s != ForAgent && s != ForUser {
		g.Session = c.Session
	}
	return g, nil
}

// exactly is the Match of this title with these arguments and no others. Objects among them
// might look like operators.
func exactly(stated string, fields map[string]any) json.RawMessage {
	want := make(map[string]any, len(fields)+1)
	if stated != "" {
		want[title] = stated
	}
	for name, value := range fields {
		if _, object := value.(map[string]any); object {
			value = map[string]any{"equals": value}
		}
		want[escaped(name)] = value
	}
	raw, err := json.Marshal(want)
	if err != nil {
		return nil // covers nothing; what was read from JSON can be written
	}
	return raw
}
