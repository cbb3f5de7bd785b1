// Package route is how handlers mount themselves, and the one table of which role a route needs.
package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// Resource is a handler that knows its own routes.
type Resource interface{ Mount(to *Routes) }

// Routes is where a resource mounts itself. One goroutine uses it, while the server is made.
type Routes struct {
	echo         *echo.Echo
	authenticate func(also ...auth.Kind) echo.MiddlewareFunc
	queries      Queries
	exchange     echo.MiddlewareFunc
	access       map[string]Access
	unlisted     []string // routes that the table of roles does not have
}

// rule is the table's entry for a route. A mismatch is collected and not reported at once, so that Check names all of
// them.
func (r *Routes) rule(method, path string, open bool) Access {
	rule, ok := r.access[method+" "+path]
	if (!ok || rule.open != open) && !(open && isFile(method, path)) {
		r.unlisted = append(r.unlisted, method+" "+path)
	}
	return rule
}

// Open adds a route that anybody may call.
func (r *Routes) Open(method, path string, h echo.HandlerFunc) {
	h = r.queries.strict(method, path, h)
	if r.rule(method, path, true).programs {
		h = r.exchange(h)
	}
	r.echo.Add(method, path, h)
}

// Callers adds a route that wants to know who calls.
func (r *Routes) Callers(method, path string, h echo.HandlerFunc) {
	r.echo.Add(method, path, r.queries.strict(method, path, h), r.authenticate(), authorize(r.rule(method, path, false)))
}

// Deciders adds a route that tokens of approvers open as well; those tokens open no chat.
func (r *Routes) Deciders(method, path string, h echo.HandlerFunc) {
	r.echo.Add(method, path, r.queries.strict(method, path, h), r.authenticate(auth.KindApprover), authorize(r.rule(method, path, false)))
}

// Beside is h for the Callers of a route that agents call too, with a token of their own. The handler decides by the
// form of the token which of the two it is.
func (r *Routes) Beside(method, path string, h echo.HandlerFunc) echo.HandlerFunc {
	rule := r.rule(method, path, true)
	var also []auth.Kind
	if slices.Contains(rule.roles, auth.RoleMCP) {
		also = append(also, auth.KindMCP)
	}
	return r.authenticate(also...)(authorize(rule)(h))
}

// New makes the Routes of a router. authenticate admits only callers, and those of the kinds it is given. exchange admits
// programs as the agents that they are bound to, and queries lists the parameters that routes accept.
func New(e *echo.Echo, authenticate func(also ...auth.Kind) echo.MiddlewareFunc, exchange echo.MiddlewareFunc, queries Queries) *Routes {
	return &Routes{echo: e, authenticate: authenticate, exchange: exchange, queries: queries, access: Table()}
}

// Check returns an error when a route was added that the table of roles does not list.
func (r *Routes) Check() error {
	if len(r.unlisted) > 0 {
		return fmt.Errorf("server: the table of roles (route/table.go) does not list %s", strings.Join(r.unlisted, ", "))
	}
	return nil
}

// Operators adds a route for operators, as in the table of roles.
func (r *Routes) Operators(method, path string, h echo.HandlerFunc) {
	r.Callers(method, path, h)
}

// Controlled adds an operators' route that changes something on a proxy's host. What is done goes into the audit
// before the proxy is asked, so that nothing is done which cannot be audited; h does that. Every attempt that was
// refused or failed is audited here. The audit sees refusals by the role too, which come before h; authentication
// itself is outside, since a caller without a name cannot be audited here.
func (r *Routes) Controlled(method, path string, refused func(echo.Context, error), h echo.HandlerFunc) {
	allowed := authorize(r.rule(method, path, false))(h)
	r.echo.Add(method, path, func(c echo.Context) error {
		err := allowed(c)
		if err != nil {
			refused(c, err)
		}
		return err
	}, r.authenticate())
}
