// Which refusals of the edge become entries of the audit. Called by the error handler for every request that failed,
// after the answer is known and before it is sent.

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
)

// auditRefusal writes down that a request was refused for who made it. Refused decisions have entries of their own,
// made where they are refused on every surface. Only 401 and 403 count: they are what an attempt to do more than one
// may looks like. A handler that writes a better entry sets the audited key, so that one attempt has one entry. The
// caller may be unknown; the entry is then that of an unknown user, and has the address.
func (f *failures) auditRefusal(c echo.Context, err error, p *problem.Problem) {
	if p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden || p.Code == approval.NotApprover || p.Code == approval.FourEyes || c.Get(audited) != nil {
		return
	}
	r := c.Request()
	if errors.Is(err, auth.ErrNoCredential) && !writes(r) {
		return // a page that finds out whether it is signed in tries nothing
	}
	// c.Path is the pattern of the route: the path itself may hold anything that a caller likes, and an entry stays
	// for ever.
	who, route := auth.From(r.Context()).Principal, r.Method+" "+c.Path()
	if who.Tenant == "" {
		who = audit.Unknown()
	}
	action := audit.AccessRefused
	if route == "POST /api/session" {
		action = audit.SignInRefused
	}
	f.audit.Refused(r.Context(), who, action, audit.OfRoute(route), map[string]any{"code": p.Code})
}

// audited is set on a request whose refusal has an entry of its own. It is a key of echo's context and lives as long
// as the request.
const audited = "aqueduct.audited"

// auditControl writes down what a thread's agent was set to, or that it could not be. A failure without a code is one
// whose outcome is unknown, such as a proxy that left before it answered: the agent may or may not have been changed.
func auditControl(c echo.Context, log *audit.Log, sessionID string, control bridge.Control, err error) {
	details := struct {
		Action bridge.ControlAction `json:"action"`
		Option string               `json:"option,omitempty"`
		Value  json.RawMessage      `json:"value,omitempty"`
		Code   string               `json:"code,omitempty"`
	}{Action: control.Action, Option: control.Option}
	if len(control.Value) <= maxAuditValue { // longer ones are no names of modes
		details.Value = control.Value
	}
	if err != nil {
		details.Code = cmp.Or(fault.CodeOf(err), "unknown_outcome")
	}
	ctx := c.Request().Context()
	log.Write(ctx, auth.From(ctx).Principal, audit.ThreadControlled, audit.OfThread(sessionID), details)
}

// maxAuditValue bounds the value of a control in the audit, which is kept for ever. Names of modes and models are far
// shorter.
const maxAuditValue = 200
