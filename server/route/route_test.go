package route

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// If this fails, a route is open to callers that must not use it, or closed to all.
func TestTableGivesEachRouteOneRule(t *testing.T) {
	t.Parallel()
	known := []string{auth.RoleUser, auth.RoleApprover, auth.RoleAuditor, auth.RoleAdmin, auth.RoleAgent, auth.RoleOperator, auth.RoleMCP}
	for name, rule := range Table() {
		method, path, _ := strings.Cut(name, " ")
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) || !strings.HasPrefix(path, "/") {
			t.Errorf("%q is no route", name)
		}
		if !rule.open && len(rule.roles) == 0 {
			t.Errorf("%s: no caller can use it", name)
		}
		for _, role := range rule.roles {
			if !slices.Contains(known, role) {
				t.Errorf("%s: there is no role %q", name, role)
			}
		}
		// What changes something must not be open by mistake: each open write checks a credential of its own.
		own := []string{
			"POST /api/session", "POST /api/session/oidc/logout", "POST /decide/:token", "POST /v1/ingress", "POST /v1/tools/:call", "POST /v1/agents/:id",
			"POST /v1/tool_calls/:id", "POST /mcp", "POST /v1/chat/completions", "POST /v1/embeddings", "POST /v1/responses", "POST /api/admin/acp-proxy/register",
			"POST /v1/sessions/:id/messages", "POST /v1/context", "PUT /v1/context/:key", "DELETE /v1/context/:key",
		}
		if rule.open && method != "GET" && !slices.Contains(own, name) {
			t.Errorf("%s: it is open to all", name)
		}
	}
	groups := len(site()) + len(credentials()) + len(conversations()) + len(decisions()) + len(agents())
	if got := len(Table()); got != groups {
		t.Errorf("the groups list %d routes, the table %d: one stands twice", groups, got)
	}
}

// env is a router with one caller, who has the roles.
func env(roles ...string) (*echo.Echo, *Routes) {
	e := echo.New()
	authenticate := func(also ...auth.Kind) echo.MiddlewareFunc {
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				kind := auth.KindUser
				if slices.Contains(roles, auth.RoleApprover) && !slices.Contains(roles, auth.RoleUser) {
					kind = auth.KindApprover
				}
				if kind == auth.KindApprover && !slices.Contains(also, kind) {
					return auth.ErrBadCredential
				}
				caller := auth.Caller{Kind: kind, Principal: store.Principal{Tenant: "t", User: "u", Roles: roles}}
				c.SetRequest(c.Request().WithContext(auth.With(c.Request().Context(), caller)))
				return next(c)
			}
		}
	}
	e.HTTPErrorHandler = func(err error, c echo.Context) { _ = c.String(problem.Of(err).Status, problem.Of(err).Code) }
	return e, New(e, authenticate, func(next echo.HandlerFunc) echo.HandlerFunc { return next }, nil)
}

func done(c echo.Context) error { return c.String(http.StatusOK, "done") }

func call(e *echo.Echo, method, path string) string {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Body.String()
}

// If this fails, a person can do what the role does not allow, or is refused with a code that names the wrong role.
func TestRoutesLetTheRightRolesThrough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		roles                                  []string
		user, decider, admin, operator, public string
	}{
		"a user":      {[]string{auth.RoleUser}, "done", "done", problem.NotAdmin, problem.NotOperator, "done"},
		"an approver": {[]string{auth.RoleApprover}, problem.Unauthorized, "done", problem.Unauthorized, problem.Unauthorized, "done"},
		"an auditor":  {[]string{auth.RoleAuditor}, problem.Role, problem.Role, problem.NotAdmin, problem.NotOperator, "done"},
		"an admin":    {[]string{auth.RoleUser, auth.RoleAdmin}, "done", "done", "done", problem.NotOperator, "done"},
		"an operator": {[]string{auth.RoleOperator}, problem.Role, problem.Role, problem.NotAdmin, "done", "done"},
		"no role":     {nil, problem.Role, problem.Role, problem.NotAdmin, problem.NotOperator, "done"},
	} {
		e, r := env(c.roles...)
		r.Callers("POST", "/api/agui/chat", done)
		r.Deciders("POST", "/api/approvals/decisions", done)
		r.Callers("POST", "/api/tokens", done)
		r.Operators("GET", "/api/proxies", done)
		r.Open("GET", "/healthz", done)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		for _, try := range []struct{ method, path, want string }{
			{"POST", "/api/agui/chat", c.user},
			{"POST", "/api/approvals/decisions", c.decider},
			{"POST", "/api/tokens", c.admin},
			{"GET", "/api/proxies", c.operator},
			{"GET", "/healthz", c.public},
		} {
			if got := call(e, try.method, try.path); got != try.want {
				t.Errorf("%s: %s %s gives %s, want %s", name, try.method, try.path, got, try.want)
			}
		}
	}
}

// If this fails, a new route is mounted without a rule, and with it open to every caller.
func TestCheckFindsRoutesWithoutARule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mount func(r *Routes)
		ok    bool
	}{
		"listed":                       {func(r *Routes) { r.Open("GET", "/healthz", done) }, true},
		"a file of the page":           {func(r *Routes) { r.Open("GET", "/app.js", done) }, true},
		"not listed":                   {func(r *Routes) { r.Callers("GET", "/api/new", done) }, false},
		"not listed, open":             {func(r *Routes) { r.Open("GET", "/api/new", done) }, false},
		"open, and listed as closed":   {func(r *Routes) { r.Open("GET", "/api/threads", done) }, false},
		"closed, and listed as open":   {func(r *Routes) { r.Callers("GET", "/healthz", done) }, false},
		"another method":               {func(r *Routes) { r.Callers("PUT", "/api/threads", done) }, false},
		"a file of the API":            {func(r *Routes) { r.Open("GET", "/api/new.json", done) }, false},
		"a file that is written":       {func(r *Routes) { r.Open("POST", "/app.js", done) }, false},
		"a file that needs a caller":   {func(r *Routes) { r.Callers("GET", "/app.js", done) }, false},
		"for agents and for callers":   {func(r *Routes) { r.Beside("GET", "/v1/tools", done) }, true},
		"beside, and listed as closed": {func(r *Routes) { r.Beside("GET", "/api/threads", done) }, false},
	} {
		_, r := env()
		c.mount(r)
		if err := r.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If this fails, an attempt to control a proxy's host that was refused or failed leaves no line in the audit.
func TestControlledAuditsWhatIsRefused(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		roles []string
		err   error
		want  string // the code in the audit; "" when nothing is audited here
	}{
		"an operator": {[]string{auth.RoleOperator}, nil, ""},
		"it failed":   {[]string{auth.RoleOperator}, failed, problem.Internal},
		"a user":      {[]string{auth.RoleUser}, nil, problem.NotOperator},
	} {
		e, r := env(c.roles...)
		audited := ""
		r.Controlled("POST", "/api/proxies/:id/control", func(_ echo.Context, err error) { audited += problem.Of(err).Code },
			func(ctx echo.Context) error {
				if c.err != nil {
					return c.err
				}
				return done(ctx)
			})
		call(e, "POST", "/api/proxies/p/control")
		if audited != c.want || r.Check() != nil {
			t.Errorf("%s: the audit gets %q, want %q; %v", name, audited, c.want, r.Check())
		}
	}
}
