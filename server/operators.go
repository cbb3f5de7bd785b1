package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// operates reports whether a Caller may see and steer proxies, which belong to nobody, not
// even to a tenant. It is the one place that says so.
func operates(c auth.Caller) bool { return c.Has(auth.RoleOperator) }

// operators adds a route for those who may, as the table of roles says.
func (r *routes) operators(method, path string, h echo.HandlerFunc) {
	r.callers(method, path, h)
}
