package store

import "slices"

// Principal is who is calling: a person or a program, always of one tenant.
type Principal struct {
	Tenant string
	User   string
	Roles  []string
}

// Roles that mean something here.
const (
	RoleAdmin    = "admin"    // tools, proxies, everybody's grants, the audit
	RoleApprover = "approver" // decides for others of the tenant
)

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
}

// As sees what belongs to the Principal: rows of Sessions of its tenant and user.
func As(p Principal) Scope { return Scope{tenant: p.Tenant, user: p.User} }

// Within sees what belongs to any user of the tenant. It is for those whose role lets them
// (approvers, admins); asking for the role is the handler's duty.
func Within(tenant string) Scope { return Scope{tenant: tenant, wide: tenant != ""} }

// System sees everything. It is for the owner of a Session driving it and for
// recovery; a handler that serves a caller never uses it.
func System() Scope { return Scope{all: true} }

// All reports whether the Scope sees every row.
func (s Scope) All() bool { return s.all }

// Wide reports whether the Scope sees every user's rows of its tenant.
func (s Scope) Wide() bool { return s.wide }

// Tenant is the tenant a restricted Scope sees.
func (s Scope) Tenant() string { return s.tenant }

// User is the user a restricted Scope sees.
func (s Scope) User() string { return s.user }
