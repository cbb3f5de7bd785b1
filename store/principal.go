package store

import (
	"slices"
	"strings"
)

// Principal is who is calling: a person or a program, always of one tenant.
type Principal struct {
	Tenant string
	User   string
	Roles  []string
}

// Roles that mean something here; others have a meaning in policies alone.
const (
	RoleUser     = "user"     // chats, and decides what its own agents ask
	RoleApprover = "approver" // decides for others of the tenant
	RoleAuditor  = "auditor"  // reads the tenant's audit, traces and approvals; changes nothing
	RoleAdmin    = "admin"    // manages the tenant's tokens, service accounts, grants and tools
	RoleAgent    = "agent"    // registers agents of the tenant, and changes those that it registered
	RoleMCP      = "mcp"      // calls tools over /mcp, and does nothing else; only a credential for MCP clients has it
	RoleOperator = "operator" // manages the installation: proxies, controls, metrics; no tenant's token carries it
)

// ProgramUser is the prefix of the user of a service account that is bound to an agent. Such a user has no other credential.
const ProgramUser = "program:"

// Has reports whether the Principal has the role. No role has another's rights.
func (p Principal) Has(role string) bool { return slices.Contains(p.Roles, role) }

// LocalPrincipal is the caller when `--auth none` is in force: one tenant, one user.
func LocalPrincipal() Principal { return Principal{Tenant: "local", User: "local"} }

// Scope is whose eyes a read uses. Every read takes one, so reading another
// tenant's row is impossible by signature. The zero Scope sees nothing.
type Scope struct {
	tenant, user string
	wide         bool // every user of the tenant
	all          bool
	// deciding are the names the caller answers to as a decider, joined by NUL: a Scope stays
	// comparable. "" for Scopes that see only what belongs to them.
	deciding string
	session  string // of an Access: this Session's rows, of any owner
	// reaching are names as in deciding, of a Scope that lists what is shared as well.
	reaching string
}

// As sees what belongs to the Principal: rows of Sessions of its tenant and user.
func As(p Principal) Scope { return Scope{tenant: p.Tenant, user: p.User} }

// Within sees what belongs to any user of the tenant. It is for those whose role lets them
// (approvers, admins); asking for the role is the handler's duty.
func Within(tenant string) Scope { return Scope{tenant: tenant, wide: tenant != ""} }

// Deciding sees what the Principal may decide: every Approval of the tenant with the approver's
// role; else its own, those that name it or one of its roles among their approvers, and those
// delegated to it, one by one or by a standing Delegation. Of rows that are no Approvals it sees
// what As, or Within, sees.
func Deciding(p Principal) Scope {
	if p.Has(RoleApprover) {
		return Within(p.Tenant)
	}
	in := As(p)
	if p.Tenant != "" && p.User != "" {
		in.deciding = strings.Join(DeciderNames(p), "\x00")
	}
	return in
}

// Reaching sees what As sees, and in lists of Sessions those too that are shared with the Principal.
func Reaching(p Principal) Scope {
	in := As(p)
	if p.Tenant != "" && p.User != "" {
		in.reaching = strings.Join(DeciderNames(p), "\x00")
	}
	return in
}

// DeciderNames are the names under which a policy's approvers can mean the Principal.
func DeciderNames(p Principal) []string {
	names := []string{"user:" + p.User}
	for _, role := range p.Roles {
		names = append(names, "role:"+role)
	}
	return names
}

// Installation sees what belongs to no tenant: credentials of proxies and operators. Asking for
// the role operator is the handler's duty.
func Installation() Scope { return Scope{wide: true} }

// System sees everything. It is for the owner of a Session driving it and for
// recovery; a handler that serves a caller never uses it.
func System() Scope { return Scope{all: true} }

// All reports whether the Scope sees every row.
func (s Scope) All() bool { return s.all }

// Wide reports whether the Scope sees every user's rows of its tenant.
func (s Scope) Wide() bool { return s.wide }

// Session is the one Session that a Scope of an Access sees; "" for any other Scope.
func (s Scope) Session() string { return s.session }

// Reached are the names that a Scope of Reaching was made with; none for any other.
func (s Scope) Reached() []string {
	if s.reaching == "" {
		return nil
	}
	return strings.Split(s.reaching, "\x00")
}

// Deciders are the names of DeciderNames that a Scope of Deciding was made with; none for any
// other, and none with the approver's role, which needs no name.
func (s Scope) Deciders() []string {
	if s.deciding == "" {
		return nil
	}
	return strings.Split(s.deciding, "\x00")
}

// Tenant is the tenant a restricted Scope sees.
func (s Scope) Tenant() string { return s.tenant }

// User is the user a restricted Scope sees.
func (s Scope) User() string { return s.user }
