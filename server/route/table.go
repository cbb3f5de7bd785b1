// The one table of which role each route needs. It is the place to look for who can do what; a test asks for each
// route with each role.

package route

import (
	"maps"

	"aqueduct/server/auth"
)

// Table lists for each route which role it needs. A route that is not listed is not mounted: server.New fails.
func Table() map[string]Access {
	table := make(map[string]Access)
	for _, group := range []map[string]Access{site(), credentials(), conversations(), decisions(), agents()} {
		maps.Copy(table, group)
	}
	return table
}

// site are the page, the health and the description of the server.
func site() map[string]Access {
	return map[string]Access{
		"GET /":             public,
		"GET /openapi.json": public,
		"GET /healthz":      public,
		"GET /readyz":       public,
		"GET /metrics":      operators,
		"GET /api/limits":   anyRole,
	}
}

// credentials sign in and manage tokens.
func credentials() map[string]Access {
	return map[string]Access{
		"POST /api/session":                public,
		"DELETE /api/session":              anyRole,
		"GET /api/session":                 public, // it answers whether the browser is signed in
		"GET /api/session/oidc/login":      public,
		"GET /api/session/oidc/callback":   public, // the provider's answer is the credential
		"POST /api/session/oidc/logout":    public,
		"POST /api/tickets":                anyRole,
		"GET /api/tokens":                  anyRole,
		"POST /api/tokens":                 admins,
		"DELETE /api/tokens":               anyRole, // all of one user: one's own, or with the role admin
		"DELETE /api/tokens/:jti":          anyRole, // the same
		"GET /api/service_accounts":        {roles: []string{auth.RoleAdmin, auth.RoleAuditor}},
		"POST /api/service_accounts":       admins,
		"DELETE /api/service_accounts/:id": admins,
	}
}

// conversations are threads, their runs and what can be read of both.
func conversations() map[string]Access {
	return map[string]Access{
		"GET /api/agui/capabilities":            anyRole,
		"POST /api/agui/chat":                   Users,
		"POST /api/agui/connect":                Users,
		"GET /api/threads":                      Users,
		"GET /api/threads/:id":                  Users,
		"PATCH /api/threads/:id":                Users,
		"DELETE /api/threads/:id":               Users,
		"GET /api/threads/:id/messages":         Users,
		"GET /api/threads/:id/parts/:sha256":    {open: true, roles: Users.roles}, // a run token is; others need the role user
		"POST /api/attachments":                 Users,
		"GET /api/threads/:id/events":           Users,
		"GET /api/threads/:id/shares":           Users,
		"POST /api/threads/:id/shares":          Users,
		"DELETE /api/threads/:id/shares/:share": Users,
		"GET /api/threads/:id/control":          Users,
		"POST /api/threads/:id/control":         Users,
		"GET /api/runs/:id":                     Users,
		"GET /api/runs/:id/events":              Users,
		"POST /api/runs/:id/cancel":             Users,
		"POST /v1/runs":                         Users,
		"GET /v1/runs/:id":                      Users,
		"GET /v1/runs/:id/events":               readers,
		"GET /v1/sessions/:id/events":           readers,
		"GET /v1/sessions/:id/messages":         {open: true, roles: Users.roles}, // a run token is; others need the role user
		"POST /v1/sessions/:id/messages":        {open: true, roles: Users.roles},
		"GET /api/audit":                        reviewers,
		"GET /ws/client":                        watchers,
	}
}

// decisions are Questions, standing answers and who decides.
func decisions() map[string]Access {
	return map[string]Access{
		"GET /api/approvals":                reviewers,
		"GET /api/approvals/:id":            reviewers,
		"POST /api/approvals/:id/decision":  deciders,
		"POST /api/approvals/decisions":     deciders,
		"POST /api/approvals/:id/delegate":  deciders,
		"POST /api/approvals/:id/revoke":    deciders,
		"GET /api/grants":                   reviewers,
		"POST /api/grants":                  granters,
		"DELETE /api/grants/:id":            granters,
		"GET /api/grants/templates":         reviewers,
		"GET /api/delegations":              reviewers,
		"POST /api/delegations":             deciders,
		"DELETE /api/delegations/:id":       deciders,
		"GET /decide/:token":                public, // the link is the credential
		"POST /decide/:token":               public,
		"GET /ws/permissions/:session_id":   deciders,
		"GET /agent_backend/ws/:session_id": deciders,
		"GET /ws/permissions":               deciders,
		"GET /agent_backend/ws":             deciders,
	}
}

// agents are for agents, their tools and their proxies, and for channels.
func agents() map[string]Access {
	return map[string]Access{
		"POST /api/tool_calls/:id/result":    Users,
		"GET /ws/ingress":                    public,                             // its hello is; a person needs the role user
		"POST /v1/ingress":                   public,                             // its signature is
		"GET /ws/agent":                      public,                             // a proxy's token is
		"GET /v1/agents":                     {open: true, roles: anyRole.roles}, // a run token is; others need a role
		"GET /v1/agents/:id":                 {open: true, roles: anyRole.roles},
		"POST /v1/agents/:id":                public, // a run token is
		"GET /v1/runs/:id/tree":              {open: true, roles: readers.roles},
		"POST /v1/agents/register":           registrars,
		"POST /v1/agents/:id/heartbeat":      registrars,
		"DELETE /v1/agents/:id":              registrars,
		"GET /v1/tools":                      {open: true, programs: true, roles: anyRole.roles}, // a run token is; others need a role
		"POST /v1/tools":                     admins,
		"DELETE /v1/tools/:name":             admins,
		"POST /v1/tools/:call":               agentsOwn,                                 // a run token is, and a program's key
		"POST /mcp":                          {open: true, roles: callersOfTools.roles}, // a run token is; users' programs need their role
		"GET /v1/tool_calls/:id":             {open: true, programs: true, roles: Users.roles},
		"POST /v1/tool_calls/:id":            agentsOwn,
		"POST /v1/context":                   {open: true, programs: true, roles: Users.roles}, // a run token is; others need the role user
		"GET /v1/context":                    {open: true, programs: true, roles: Users.roles},
		"GET /v1/context/:key":               {open: true, programs: true, roles: Users.roles},
		"PUT /v1/context/:key":               {open: true, programs: true, roles: Users.roles},
		"DELETE /v1/context/:key":            {open: true, programs: true, roles: Users.roles},
		"POST /v1/chat/completions":          agentsOwn, // a run token is, and a program's key
		"POST /v1/embeddings":                agentsOwn,
		"POST /v1/responses":                 agentsOwn,
		"GET /v1/models":                     agentsOwn,
		"GET /api/proxies":                   operators,
		"GET /api/proxies/:id":               operators,
		"DELETE /api/proxies/:id":            operators,
		"GET /api/proxies/:id/inventory":     operators,
		"POST /api/proxies/:id/prune":        operators,
		"POST /api/proxies/:id/control":      operators,
		"POST /api/admin/acp-proxy/register": public, // a bootstrap token is
	}
}
