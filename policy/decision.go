package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// maxKeptArgs bounds the arguments in a Decision; of longer ones it has the hash.
const maxKeptArgs = 64 << 10

// Decision is a Call and its Verdict as they are kept: the payload of a policy_decision.
type Decision struct {
	Verdict Action          `json:"verdict"`
	Rule    string          `json:"rule"`
	Reason  string          `json:"reason,omitempty"`
	Risk    Risk            `json:"risk,omitempty"`
	Grant   string          `json:"grant_id,omitempty"`
	Tool    string          `json:"tool"`
	Kind    string          `json:"kind,omitempty"`
	Title   string          `json:"title,omitempty"`
	SHA256  string          `json:"args_sha256"`
	Args    json.RawMessage `json:"args,omitempty"`
	// ToolRisk and ToolOwn are what the tool was registered with.
	ToolRisk Risk     `json:"tool_risk,omitempty"`
	ToolOwn  Own      `json:"tool_policy,omitzero"`
	Folder   string   `json:"folder,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Session  string   `json:"session,omitempty"`
	Tenant   string   `json:"tenant,omitempty"`
	User     string   `json:"user,omitempty"`
	Roles    []string `json:"roles,omitempty"`
}

// Decided is what to keep of a verdict. The title is kept as it was judged; Visible is for
// who shows it.
// It is kept for every permission and tool call, also those that were allowed without a person.
func Decided(c Call, v Verdict) Decision {
	d := Decision{
		Verdict: v.Action, Rule: v.Rule, Reason: v.Reason, Risk: v.Risk, Grant: v.Grant,
		Tool: c.Tool, Kind: c.Kind, Title: c.Title, ToolRisk: c.Risk, ToolOwn: c.Own,
		Folder: c.Folder, Agent: c.AgentID, Session: c.Session, Tenant: c.By.Tenant, User: c.By.User, Roles: c.By.Roles,
	}
	args := compact(c.Args)
	d.SHA256 = hashOf(args)
	if len(args) <= maxKeptArgs && json.Valid(args) {
		d.Args = args
	}
	return d
}

// Call is the Call that was judged; false when its arguments were not kept. The hash does
// not prove them: JSON written again, or kept by a database, is not spelled the same.
func (d Decision) Call() (Call, bool) {
	return Call{
		AgentID: d.Agent, Session: d.Session, Tool: d.Tool, Kind: d.Kind, Title: d.Title, Args: d.Args, Risk: d.ToolRisk, Own: d.ToolOwn,
		Folder: d.Folder, By: Principal{Tenant: d.Tenant, User: d.User, Roles: d.Roles},
	}, len(d.Args) > 0 || d.SHA256 == "" || d.SHA256 == hashOf([]byte("{}"))
}

func hashOf(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// compact is the form that is hashed and kept. What is not JSON is hashed as it is, and not kept.
func compact(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// LooksAtArgs reports whether a rule may depend on the arguments, so that a call without
// them cannot be decided again.
func (p *Policy) LooksAtArgs() bool {
	return slices.ContainsFunc(p.rules, func(r rule) bool { return strings.Contains(r.When, "args") })
}
