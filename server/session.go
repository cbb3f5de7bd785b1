package server

import (
	"context"
	"errors"
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
	h.auditSignIn(c.Request(), cookie, body)
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
	if caller := auth.From(ctx); caller.Credential.ID == "" { // others have their entry together with the end of the session
		h.audit.Write(ctx, caller.Principal, audit.SignedOut, audit.OfUser(caller.Principal.User), nil)
	}
	return c.NoContent(http.StatusNoContent)
}

// auditSignIn writes down who has the new session, as the cookie says it.
func (h *session) auditSignIn(r *http.Request, cookie *http.Cookie, body signInBody) {
	as := r.Clone(r.Context())
	as.Header = http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}
	caller, err := h.auth.Caller(as, auth.KindApprover)
	if err != nil {
		return // where nobody needs a token, nobody signs in
	}
	by := "token"
	if body.Code != "" {
		by = "link"
	}
	h.audit.Write(r.Context(), caller.Principal, audit.SignedIn, audit.OfUser(caller.Principal.User), map[string]any{"kind": caller.Kind, "by": by})
}
