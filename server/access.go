package server

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// access is who may use a route.
type access struct {
	// open routes are used without a role: what is public, and what checks a credential of its own
	// (a hello, a link's signature, a run token, a proxy's token).
	open bool
	// roles are those of which a Caller needs one.
	roles []string
}

// The groups of roles that routes are for.
var (
	public    = access{open: true}
	anybody   = access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin, auth.RoleOperator}}
	users     = access{roles: []string{auth.RoleUser}}
	readers   = access{roles: []string{auth.RoleUser, auth.RoleAuditor}}
	deciders  = access{roles: []string{auth.RoleUser, auth.RoleApprover}}
	reviewers = access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin}}
	granters  = access{roles: []string{auth.RoleUser, auth.RoleApprover, auth.RoleAdmin}}
	admins    = access{roles: []string{auth.RoleAdmin}}
	operators = access{roles: []string{auth.RoleOperator}}
	watchers  = access{roles: []string{auth.RoleUser, auth.RoleOperator}}
)

// accessTable is the one place that says which role a route needs. A route that is not listed is not
// mounted: New fails.
func accessTable() map[string]access {
	return map[string]access{
		"GET /":             public,
		"GET /openapi.json": public,
		"GET /healthz":      public,
		"GET /readyz":       public,
		"GET /metrics":      operators,

		"GET /api/limits": anybody,

		"POST /api/session":   public,
		"DELETE /api/session": anybody,

		"GET /api/session":               public, // it says whether somebody is signed in
		"GET /api/session/oidc/login":    public,
		"GET /api/session/oidc/callback": public, // the provider's answer is the credential
		"POST /api/session/oidc/logout":  public,

		"GET /api/tokens":                  anybody,
		"POST /api/tokens":                 admins,
		"DELETE /api/tokens":               anybody, // all of one user: one's own, or with the role admin
		"DELETE /api/tokens/:jti":          anybody, // the same
		"GET /api/service_accounts":        {roles: []string{auth.RoleAdmin, auth.RoleAuditor}},
		"POST /api/service_accounts":       admins,
		"DELETE /api/service_accounts/:id": admins,

		"GET /api/agui/capabilities": anybody,
		"POST /api/agui/chat":        users,
		"POST /api/agui/connect":     users,

		"GET /api/threads":                      users,
		"GET /api/threads/:id":                  users,
		"PATCH /api/threads/:id":                users,
		"DELETE /api/threads/:id":               users,
		"GET /api/threads/:id/messages":         users,
		"GET /api/threads/:id/parts/:sha256":    users,
		"GET /api/threads/:id/events":           users,
		"GET /api/threads/:id/shares":           users,
		"POST /api/threads/:id/shares":          users,
		"DELETE /api/threads/:id/shares/:share": users,
		"GET /api/threads/:id/control":          users,
		"POST /api/threads/:id/control":         users,

		"GET /api/runs/:id":               users,
		"GET /api/runs/:id/events":        users,
		"POST /api/runs/:id/cancel":       users,
		"POST /api/tool_calls/:id/result": users,
		"GET /v1/runs/:id/events":         readers,
		"GET /v1/sessions/:id/events":     readers,
		"GET /api/audit":                  reviewers,

		"GET /api/approvals":               reviewers,
		"GET /api/approvals/:id":           reviewers,
		"POST /api/approvals/:id/decision": deciders,
		"POST /api/approvals/decisions":    deciders,
		"POST /api/approvals/:id/delegate": deciders,
		"POST /api/approvals/:id/revoke":   deciders,
		"GET /api/grants":                  reviewers,
		"POST /api/grants":                 granters,
		"DELETE /api/grants/:id":           granters,
		"GET /api/grants/templates":        reviewers,
		"GET /api/delegations":             reviewers,
		"POST /api/delegations":            deciders,
		"DELETE /api/delegations/:id":      deciders,

		"GET /decide/:token":                public, // the link is the credential
		"POST /decide/:token":               public,
		"GET /ws/permissions/:session_id":   deciders,
		"GET /agent_backend/ws/:session_id": deciders,
		"GET /ws/permissions":               deciders,
		"GET /agent_backend/ws":             deciders,
		"GET /ws/client":                    watchers,
		"GET /ws/ingress":                   public, // its hello is; a person needs the role user
		"POST /v1/ingress":                  public, // its signature is
		"GET /ws/agent":                     public, // a proxy's token is

		"GET /v1/tools":           {open: true, roles: anybody.roles}, // a run token is; others need a role
		"POST /v1/tools":          admins,
		"DELETE /v1/tools/:name":  admins,
		"POST /v1/tools/:call":    public, // a run token is
		"GET /v1/tool_calls/:id":  {open: true, roles: users.roles},
		"POST /v1/tool_calls/:id": public,

		"GET /api/proxies":                   operators,
		"GET /api/proxies/:id":               operators,
		"DELETE /api/proxies/:id":            operators,
		"GET /api/proxies/:id/inventory":     operators,
		"POST /api/proxies/:id/prune":        operators,
		"POST /api/proxies/:id/control":      operators,
		"POST /api/admin/acp-proxy/register": public, // a bootstrap token is
	}
}

// isFile reports whether a route is a file of the page, which has one route for each.
func isFile(method, path string) bool {
	return method == "GET" && !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/ws/") && strings.Contains(path, ".")
}

// authorize lets Callers through who have one of a route's roles.
func authorize(rule access) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			caller := auth.From(c.Request().Context())
			if !slices.ContainsFunc(rule.roles, caller.Has) {
				return refuseRole(rule)
			}
			return next(c)
		}
	}
}

// refuseRole names the roles of which one is needed.
func refuseRole(rule access) error {
	code := codeRole
	switch {
	case slices.Equal(rule.roles, admins.roles):
		code = codeNotAdmin
	case slices.Equal(rule.roles, operators.roles):
		code = codeNotOperator
	}
	return refuse(code, "This needs one of the roles: "+strings.Join(rule.roles, ", ")+".")
}
