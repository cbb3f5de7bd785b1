package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/audit"
	"aqueduct/server/auth"
)

// session is /api/session: a browser hands in the token once and has a cookie from then
// on, because neither links nor an EventSource can carry a header.
type session struct {
	auth *auth.Auth
	in   *intake

	audit *audit.Log
}

func (h *session) mount(to *routes) {
	to.open(http.MethodPost, "/api/session", h.signIn)
	to.callers(http.MethodDelete, "/api/session", h.signOut)
}

type signInBody struct {
	Token string `json:"token" validate:"required,max=4096"`
}

func (h *session) signIn(c echo.Context) error {
	var body signInBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	cookie, err := h.auth.SignIn(auth.Secret(body.Token), c.IsTLS())
	if err != nil {
		return err
	}
	c.SetCookie(cookie)
	if caller, err := h.auth.Accept(auth.Secret(body.Token), auth.KindStatic, auth.KindUser, auth.KindApprover); err == nil {
		h.audit.Write(c.Request().Context(), caller.Principal, audit.SignedIn, audit.OfUser(caller.Principal.User), map[string]any{"kind": caller.Kind})
	}
	return c.NoContent(http.StatusNoContent)
}

func (h *session) signOut(c echo.Context) error {
	who := auth.From(c.Request().Context()).Principal
	h.audit.Write(c.Request().Context(), who, audit.SignedOut, audit.OfUser(who.User), nil)
	c.SetCookie(h.auth.SignOut(c.IsTLS()))
	return c.NoContent(http.StatusNoContent)
}
