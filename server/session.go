// Sessions of browsers that have a token: the token, or the code of the link that serve prints, becomes a cookie.
// People who sign in at an OpenID provider come by signin.go and get the same kind of cookie.

package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// session is /api/session: a browser hands in the token once and has a cookie from then on, because neither links nor
// an EventSource can carry a header. It keeps nothing: a session is in the signed cookie and, with a registry, in a
// row.
type session struct {
	auth *auth.Auth
	in   *decode.Decoder

	// audit gets an entry for each sign-in and, without a registry, for each sign-out.
	audit *audit.Log
}

// Mount adds the routes. Signing in is open, because the body has the credential; signing out takes any session.
func (h *session) Mount(to *route.Routes) {
	to.Open(http.MethodPost, "/api/session", h.signIn)
	to.Deciders(http.MethodDelete, "/api/session", h.signOut)
}

// signInBody has a token, or the code of a sign-in link. A code comes out of the link that serve prints at its first
// start.
type signInBody struct {
	Token string `json:"token" validate:"required_without=Code,max=4096"`
	Code  string `json:"code" validate:"excluded_with=Token,max=128"`
}

// signIn trades a token or a code for a session's cookie. The body is read before any credential is known, so it is a
// small one; a refused credential counts against the address. The token is looked at once more after the cookie was
// made, for the name in the audit alone; a link has no name but that of the local user.
func (h *session) signIn(c echo.Context) error {
	var body signInBody
	if err := h.in.SmallJSON(c, &body); err != nil {
		return err
	}
	// Check this first: a code must not be used up for a cookie that the browser discards.
	if crossSite(c.Request()) {
		return problem.Refuse(problem.CrossSite, crossSiteAdvice(c.Request()))
	}
	cookie, err := h.exchange(c.Request().Context(), body, c.IsTLS())
	if err != nil {
		return h.in.Refused(c, err)
	}
	if err := h.in.Known(c); err != nil {
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

// exchange trades the token or the code for the cookie of a session. A spent link gets a code of its own, because a
// person who clicks it twice has done nothing wrong and should read what to do.
func (h *session) exchange(ctx context.Context, body signInBody, secure bool) (*http.Cookie, error) {
	if body.Code == "" {
		return h.auth.SignIn(ctx, auth.Secret(body.Token), secure)
	}
	cookie, err := h.auth.SignInByCode(ctx, auth.Secret(body.Code), secure)
	if errors.Is(err, auth.ErrSignInCode) {
		return nil, problem.Refuse(problem.SignInLink, "")
	}
	return cookie, err
}

// signOut ends the session and takes the cookie back. With a registry the session is revoked as well, so that a copy
// of the cookie is worthless from then on.
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
