package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/proxies"
	"aqueduct/server/auth"
)

// operates reports whether a Caller may see and steer proxies, which belong to nobody, not
// even to a tenant. It is the one place that says so.
func operates(c auth.Caller) bool { return c.Has(auth.RoleOperator) }

// operators adds a route for those who may, as the table of roles says.
func (r *routes) operators(method, path string, h echo.HandlerFunc) {
	r.callers(method, path, h)
}

// controlled adds an operators' route that changes something on a proxy's host. What is done goes into the audit before the
// proxy is asked, so that nothing is done which cannot be audited; h does that. Every attempt that was refused or failed is
// audited here.
func (r *routes) controlled(method, path string, deeds proxyDeeds, h echo.HandlerFunc) {
	allowed := authorize(r.rule(method, path, false))(h)
	r.echo.Add(method, path, func(c echo.Context) error {
		err := allowed(c)
		if err != nil {
			deeds.refused(c, err)
		}
		return err
	}, r.authenticate())
}

// proxyDeeds writes what is done to proxies into the audit.
type proxyDeeds struct {
	known *proxies.Registry
	audit *audit.Log
}

// done is a deed that is about to be done.
func (d proxyDeeds) done(c echo.Context, action, proxyID string, details map[string]any) error {
	ctx := c.Request().Context()
	if details == nil {
		details = make(map[string]any)
	}
	details["remote_addr"] = c.RealIP()
	return d.known.Audit(ctx, auth.From(ctx).Principal, action, proxyID, details)
}

// refused is one that was not, or failed.
func (d proxyDeeds) refused(c echo.Context, reason error) {
	id := c.Param("id")
	if !bridge.ValidName(id) {
		id = "" // what is no id cannot be kept as one
	}
	c.Set(audited, true)
	ctx := c.Request().Context()
	d.audit.Refused(ctx, auth.From(ctx).Principal, audit.ProxyRefused, audit.OfProxy(id), map[string]any{
		"request": c.Request().Method + " " + c.Path(), "code": problemOf(reason).Code, "remote_addr": c.RealIP(),
	})
}
