// Who may use a route: groups of roles, and the check of a caller against one. The groups have names so that the
// table reads as sentences.

package route

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/problem"
)

// Access is who may use a route. A route may be open and have roles too: agents call it with a token of their own,
// and users by their role (Beside).
type Access struct {
	// open routes are used without a role: what is public, and what checks a credential of its own
	// (a hello, a link's signature, a run token, a proxy's token).
	open bool
	// programs: the key of a service account that is bound to an agent opens the route, like a run token.
	programs bool
	// roles are those of which a Caller needs one.
	roles []string
}

// The groups of roles that routes are for.
var (
	public    = Access{open: true}
	agentsOwn = Access{open: true, programs: true}
	anyRole   = Access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin, auth.RoleAgent, auth.RoleOperator}}
	Users     = Access{roles: []string{auth.RoleUser}}
	// callersOfTools are users, and the MCP clients that users gave a credential of their own.
	callersOfTools = Access{roles: []string{auth.RoleUser, auth.RoleMCP}}
	readers        = Access{roles: []string{auth.RoleUser, auth.RoleAuditor}}
	deciders       = Access{roles: []string{auth.RoleUser, auth.RoleApprover}}
	reviewers      = Access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin}}
	granters       = Access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAdmin}}
	admins         = Access{roles: []string{auth.RoleAdmin}}
	registrars     = Access{roles: []string{auth.RoleAgent, auth.RoleAdmin}}
	operators      = Access{roles: []string{auth.RoleOperator}}
	watchers       = Access{roles: []string{auth.RoleUser, auth.RoleOperator}}
)

// isFile reports whether a route is a file of the page, which has one route for each.
func isFile(method, path string) bool {
	return method == "GET" && !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/ws/") && strings.Contains(path, ".")
}

// authorize lets Callers through who have one of a route's roles. It runs behind authentication, so the caller is
// known; a caller without a role that fits learns which ones would.
func authorize(rule Access) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			caller := auth.From(c.Request().Context())
			if !slices.ContainsFunc(rule.roles, caller.Has) {
				return RefuseRole(rule)
			}
			return next(c)
		}
	}
}

// RefuseRole names the roles of which one is needed. The groups of admins and operators have codes of their own.
func RefuseRole(rule Access) error {
	code := problem.Role
	switch {
	case slices.Equal(rule.roles, admins.roles):
		code = problem.NotAdmin
	case slices.Equal(rule.roles, operators.roles):
		code = problem.NotOperator
	}
	return problem.Refuse(code, "This needs one of the roles: "+strings.Join(rule.roles, ", ")+".")
}
