package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// operates reports whether a Caller may see and steer proxies, which belong to nobody. It
// is the one place that says so: there are no roles yet, so everybody who is somebody may.
func operates(c auth.Caller) bool { return c.Principal.User != "" }

// operators adds a route for those who may. To others it is not there.
func (r *routes) operators(method, path string, h echo.HandlerFunc) {
	r.callers(method, path, func(c echo.Context) error {
		if !operates(auth.From(c.Request().Context())) {
			return store.ErrNotFound
		}
		return h(c)
	})
}
