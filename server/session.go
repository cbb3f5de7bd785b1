// Sessions of browsers that have a token: the token, or the code of the link that serve prints, becomes a cookie.
// People who sign in at an OpenID provider come by signin.go and get the same kind of cookie.

package server

import (
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
// an EventSource can carry a header, and a secret that the page sends beside it. It keeps nothing: a session is in the signed
// cookie and, with a registry, in a row.
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

// signInBody has a token, the code of a sign-in link, or the ticket that a sign-in at a provider sent the page back with. A code
// comes out of the link that serve prints at its first start.
type signInBody struct {
	Token  string `json:"token" validate:"required_without_all=Code Ticket,max=4096"`
	Code   string `json:"code" validate:"excluded_with=Token,max=128"`
	Ticket string `json:"ticket" validate:"excluded_with=Token Code,max=256"`
}

// signIn trades a token or a code for a session: its cookie, and the page's secret in a header. The body is read before any
// credential is known, so it is a small one; a refused credential counts against the address. The token is looked at once more
// after the cookie was made, for the name in the audit alone; a link has no name but that of the local user.
func (h *session) signIn(c echo.Context) error {
	var body signInBody
	if err := h.in.SmallJSON(c, &body); err != nil {
		return err
	}
	// Check this first: a code must not be used up for a cookie that the browser discards.
	if crossSite(c.Request()) {
		return problem.Refuse(problem.CrossSite, crossSiteAdvice(c.Request()))
	}
	signed, err := h.exchange(c.Request(), body)
	if err != nil {
		return h.in.Refused(c, err)
	}
	if err := h.in.Known(c); err != nil {
		return err
	}
	signedIn(c, signed)
	if body.Code != "" {
		who := store.LocalPrincipal()
		h.audit.Write(c.Request().Context(), who, audit.SignedIn, audit.OfUser(who.User), map[string]any{"kind": "sign_in_link"})
	} else if caller, err := h.auth.Accept(c.Request().Context(), auth.Secret(body.Token), auth.KindStatic, auth.KindUser, auth.KindApprover); err == nil {
		h.audit.Write(c.Request().Context(), caller.Principal, audit.SignedIn, audit.OfUser(caller.Principal.User), map[string]any{"kind": caller.Kind})
	}
	return c.NoContent(http.StatusNoContent)
}

// signedIn gives the browser its cookie, and the page its secret.
func signedIn(c echo.Context, signed auth.SignedIn) {
	if signed.Cookie != nil {
		c.SetCookie(signed.Cookie)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().Header().Set(auth.PageHeader, string(signed.Page))
}

// exchange trades the token, the code or the ticket for what a session is shown by. A spent link gets a code of its own, because
// a person who clicks it twice has done nothing wrong and should read what to do.
func (h *session) exchange(r *http.Request, body signInBody) (auth.SignedIn, error) {
	switch {
	case body.Ticket != "":
		caller, err := h.auth.Named(r, auth.KindUser)
		if err != nil {
			return auth.SignedIn{}, err
		}
		return h.auth.Registry().Page(r, caller, body.Ticket)
	case body.Code == "":
		return h.auth.SignIn(r, auth.Secret(body.Token))
	}
	signed, err := h.auth.SignInByCode(r, auth.Secret(body.Code))
	if errors.Is(err, auth.ErrSignInCode) {
		return auth.SignedIn{}, problem.Refuse(problem.SignInLink, "")
	}
	return signed, err
}

// signOut ends the session and takes the cookie back. With a registry the session is revoked as well, so that a copy
// of the cookie is worthless from then on.
func (h *session) signOut(c echo.Context) error {
	ctx := c.Request().Context()
	gone, err := h.auth.SignOut(c.Request(), auth.From(ctx))
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
