package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// auditRefusal writes down that a request was refused for who made it. Refused decisions have entries of their own, made
// where they are refused on every surface.
func (f *failures) auditRefusal(c echo.Context, err error, p *problem) {
	if p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden || p.Code == inbox.NotApprover || p.Code == inbox.FourEyes || c.Get(audited) != nil {
		return
	}
	r := c.Request()
	if errors.Is(err, auth.ErrNoCredential) && !writes(r) {
		return // a page that finds out whether it is signed in tries nothing
	}
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

// approvalFor reads an Approval that somebody is about to decide. Who tries ids of others is seen in the audit by it.
func approvalFor(ctx context.Context, st store.Store, sessions *bridge.Sessions, caller auth.Caller, in store.Scope, id string) (store.Approval, error) {
	a, err := st.Approval(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		sessions.Foreign(ctx, caller.Principal, brief(id))
	}
	return a, err
}

// audited is set on a request whose refusal has an entry of its own.
const audited = "aqueduct.audited"

// auditControl writes down what a thread's agent was set to, or that it could not be.
func auditControl(c echo.Context, log *audit.Log, sessionID string, control bridge.Control, err error) {
	details := struct {
		Action bridge.ControlAction `json:"action"`
		Option string               `json:"option,omitempty"`
		Value  rawJSON              `json:"value,omitempty"`
		Code   string               `json:"code,omitempty"`
	}{Action: control.Action, Option: control.Option}
	if len(control.Value) <= maxAuditValue { // longer ones are no names of modes
		details.Value = rawJSON(control.Value)
	}
	var failed *bridge.ControlError
	switch {
	case errors.As(err, &failed):
		details.Code = failed.Code
	case err != nil:
		details.Code = "unknown_outcome"
	}
	ctx := c.Request().Context()
	log.Write(ctx, auth.From(ctx).Principal, audit.ThreadControlled, audit.OfThread(sessionID), details)
}

// maxAuditValue bounds the value of a control in the audit, which is kept for ever.
const maxAuditValue = 200
