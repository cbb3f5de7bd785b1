package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

// session is /api/session: a browser hands in the token once and has a cookie from then
// on, because neither links nor an EventSource can carry a header.
type session struct {
	auth *auth.Auth
	in   *intake
}

func (h *session) mount(to *routes) {
	to.open(http.MethodPost, "/api/session", h.signIn)
	to.deciders(http.MethodDelete, "/api/session", h.signOut)
}

type signInBody struct {
	Token string `json:"token" validate:"required,max=4096"`
}

func (h *session) signIn(c echo.Context) error {
	var body signInBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	cookie, err := h.auth.SignIn(c.Request().Context(), auth.Secret(body.Token), c.IsTLS())
	if err != nil {
		return err
	}
	c.SetCookie(cookie)
	return c.NoContent(http.StatusNoContent)
}

func (h *session) signOut(c echo.Context) error {
	ctx := c.Request().Context()
	gone, err := h.auth.SignOut(ctx, auth.From(ctx), c.IsTLS())
	if err != nil {
		return err
	}
	c.SetCookie(gone)
	return c.NoContent(http.StatusNoContent)
}
