package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/audit"
	"aqueduct/server/auth"
	"aqueduct/store"
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
	to.deciders(http.MethodDelete, "/api/session", h.signOut)
}

// signInBody has a token, or the code of a sign-in link.
type signInBody struct {
	Token string `json:"token" validate:"required_without=Code,max=4096"`
	Code  string `json:"code" validate:"excluded_with=Token,max=128"`
}

func (h *session) signIn(c echo.Context) error {
	var body signInBody
	if err := h.in.smallJSON(c, &body); err != nil {
		return err
	}
	cookie, err := h.exchange(c.Request().Context(), body, c.IsTLS())
	if err != nil {
		return h.in.refused(c, err)
	}
	if err := h.in.known(c); err != nil {
		return err
	}
	c.SetCookie(cookie)
	if body.Code != "" {
		who := store.LocalPrincipal()
		h.audit.Write(c.Request().Context(), who, audit.SignedIn, audit.OfUser(who.User), map[string]any{"kind": "sign_in_link"})
	} else if caller, err := h.auth.Accept(c.Request().Context(), auth.Secret(body.Token), auth.KindStatic, auth.KindUser, auth.KindApprover); err == nil {
		h.audit.Write(c.Request().Context(), caller.Principal, audit.SignedIn, audit.OfUser(caller.Principal.User), map[string]any{"kind": caller.Kind})
	}
	return c.NoContent(http.StatusNoContent)
}

// exchange trades the token or the code for the cookie of a session.
func (h *session) exchange(ctx context.Context, body signInBody, secure bool) (*http.Cookie, error) {
	if body.Code == "" {
		return h.auth.SignIn(ctx, auth.Secret(body.Token), secure)
	}
	cookie, err := h.auth.SignInByCode(ctx, auth.Secret(body.Code), secure)
	if errors.Is(err, auth.ErrSignInCode) {
		return nil, refuse(codeSignInLink, "")
	}
	return cookie, err
}

func (h *session) signOut(c echo.Context) error {
	ctx := c.Request().Context()
	gone, err := h.auth.SignOut(ctx, auth.From(ctx), c.IsTLS())
	if err != nil {
		return err
	}
	c.SetCookie(gone)
	if h.auth.Registry() == nil { // which writes its own entry with the end that it keeps
		who := auth.From(ctx).Principal
		h.audit.Write(ctx, who, audit.SignedOut, audit.OfUser(who.User), nil)
	}
	return c.NoContent(http.StatusNoContent)
}
