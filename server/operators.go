// Operators: the role that reaches beyond tenants. Proxies run on machines that all tenants share, so what is done to
// them is audited by itself, with the address it came from.

package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/ids"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
)

// operates reports whether a Caller may see and steer proxies, which belong to no user and no tenant. All such checks
// are here. It is also what lets a page watch proxies on /ws/client.
func operates(c auth.Caller) bool { return c.Has(auth.RoleOperator) }

// proxyDeeds writes what is done to proxies into the audit. It is a value without state of its own, shared by the
// handlers of proxies.
type proxyDeeds struct {
	known bridge.ProxyRegistry
	audit *audit.Log
}

// done is a deed that is about to be done. It is written before the deed: a crash in between leaves an entry for
// something that was not done, which is the safe side of the two.
func (d proxyDeeds) done(c echo.Context, action, proxyID string, details map[string]any) error {
	ctx := c.Request().Context()
	if details == nil {
		details = make(map[string]any)
	}
	details["remote_addr"] = c.RealIP()
	return d.known.Audit(ctx, auth.From(ctx).Principal, action, proxyID, details)
}

// refused is one that was not, or failed. The key in the context keeps the error handler from writing a second entry.
func (d proxyDeeds) refused(c echo.Context, reason error) {
	id := c.Param("id")
	// The path of a refused request may hold anything.
	if !ids.ValidName(id) {
		id = "" // what is no id cannot be kept as one
	}
	c.Set(audited, true)
	ctx := c.Request().Context()
	d.audit.Refused(ctx, auth.From(ctx).Principal, audit.ProxyRefused, audit.OfProxy(id), map[string]any{
		"request": c.Request().Method + " " + c.Path(), "code": problem.Of(reason).Code, "remote_addr": c.RealIP(),
	})
}
