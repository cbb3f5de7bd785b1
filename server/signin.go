// Signing in at an OpenID provider with the authorization code flow. The protocol is in server/auth (oidc*.go); this
// file has its four routes and the cookies between them.

package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
)

// The cookie of a sign-in that is under way is sent to this path alone.
const (
	oidcPath     = "/api/session/oidc/"
	oidcLogin    = oidcPath + "login"
	oidcCallback = oidcPath + "callback"
	oidcLogout   = oidcPath + "logout"
)

// signIn is how people sign in: who is signed in now, and the way to an OpenID provider and back. It keeps nothing:
// what a sign-in has to remember is in a signed cookie of the browser.
type signIn struct {
	auth   *auth.Auth
	audit  *audit.Log
	in     *decode.Decoder
	public string // where people reach this server; "" is where the request came
	// log gets each sign-in that failed, with its reason.
	log *slog.Logger
}

// Mount adds the routes, all open: a person who signs in has no credential yet.
func (h *signIn) Mount(to *route.Routes) {
	to.Open(http.MethodGet, "/api/session", h.who)
	to.Open(http.MethodGet, oidcLogin, h.login)
	to.Open(http.MethodGet, oidcCallback, h.callback)
	to.Open(http.MethodPost, oidcLogout, h.logout)
}

// whoJSON is who calls, and how a caller without a session may sign in. A page shows its login form by kind and
// login: without an issuer there is the token alone.
type whoJSON struct {
	SignedIn bool       `json:"signedIn"`
	Kind     string     `json:"kind,omitempty"`
	Tenant   string     `json:"tenant,omitempty"`
	User     string     `json:"user,omitempty"`
	Roles    []string   `json:"roles,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	Login    string     `json:"login,omitempty"`  // where to sign in at the provider; absent without one
	Logout   string     `json:"logout,omitempty"` // where to POST to sign out, there as well
}

// who answers whether the browser is signed in. A missing or bad credential is an answer here and no error: every
// page asks this first, so it counts against no limit on failures. The answer is never cached: after a sign-out a
// page would still show the name.
func (h *signIn) who(c echo.Context) error {
	var out whoJSON
	switch caller, err := h.auth.Caller(c.Request(), auth.KindApprover); {
	case err == nil:
		out = whoJSON{
			SignedIn: true, Kind: string(caller.Kind), Tenant: caller.Principal.Tenant, User: caller.Principal.User,
			Roles: caller.Principal.Roles, Until: answer.TimeOrNil(caller.Until),
		}
	case !errors.Is(err, auth.ErrNoCredential) && !errors.Is(err, auth.ErrBadCredential):
		return err
	}
	if h.auth.OIDC() != nil {
		out.Login, out.Logout = oidcLogin, oidcLogout
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, out)
}

// login sends the browser to the provider. Where no provider is configured the three routes are not found, like any
// route that is off.
func (h *signIn) login(c echo.Context) error {
	o := h.auth.OIDC()
	if o == nil {
		return problem.Refuse(problem.NotFound, "")
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	to, begun, err := o.Begin(c.Request().Context(), h.base(c)+oidcCallback)
	if err != nil {
		return h.failed(c, err)
	}
	c.SetCookie(begun.Cookie(oidcPath, h.secure(c)))
	return c.Redirect(http.StatusSeeOther, to)
}

// callback takes the browser back with a session of ours. The cookie is SameSite=Strict and this request comes from
// the provider's page, so the page at "/" is where it is first sent along. The state in the URL must be that of the
// cookie, or a stranger could sign a victim in under an account of the stranger's. The cookie is taken back whatever
// comes of it: a code works once. The entry of the audit is written before the session is there; one that cannot be
// audited is not opened.
func (h *signIn) callback(c echo.Context) error {
	o := h.auth.OIDC()
	if o == nil {
		return problem.Refuse(problem.NotFound, "")
	}
	h1 := c.Response().Header()
	h1.Set("Cache-Control", "no-store")
	// A page that the browser is sent to would otherwise get it in a Referer header.
	h1.Set("Referrer-Policy", "no-referrer") // the URL holds the code
	begun, forget := auth.SignInOf(c.Request(), c.QueryParam("state"), oidcPath, h.secure(c))
	// Before the exchange, which may fail in many ways: none of them leaves the cookie.
	c.SetCookie(forget)
	// It bounds the requests to the provider, which may be slow or gone.
	ctx, cancel := context.WithTimeout(c.Request().Context(), 30*time.Second)
	defer cancel()
	who, until, err := o.Finish(ctx, h.base(c)+oidcCallback, begun, c.QueryParams())
	if err != nil {
		return h.failed(c, err)
	}
	if err := h.audit.Record(ctx, who, audit.SignedIn, audit.OfUser(who.User), map[string]any{"issuer": o.Issuer(), "roles": who.Roles}); err != nil {
		return h.failed(c, err)
	}
	signed, err := h.auth.StartSession(c.Request().WithContext(ctx), auth.Session{Tenant: who.Tenant, User: who.User, Roles: who.Roles, For: auth.TypeUser, Until: until})
	if err != nil {
		return h.failed(c, err)
	}
	c.SetCookie(signed.Cookie)
	// The page trades the ticket for its secret. The fragment reaches no server, and a browser that keeps the address keeps a
	// ticket that is used up.
	return c.Redirect(http.StatusSeeOther, "/#signed-in="+url.QueryEscape(string(signed.PageTicket())))
}

// failed brings a person back to the page with a code: a problem as JSON is nothing to look at. The log has the
// reason and the address; the code in the URL fragment never reaches a server's log.
func (h *signIn) failed(c echo.Context, err error) error {
	code := problem.SignInFailed
	switch {
	case errors.Is(err, auth.ErrNotMapped):
		code = problem.SignInUnknown
	case errors.Is(err, auth.ErrSignInState):
		code = problem.SignInState
	case errors.Is(err, auth.ErrSignInDenied):
		code = problem.SignInDenied
	case errors.Is(err, auth.ErrIssuer):
		code = problem.Issuer
	}
	h.log.Warn("nobody was signed in", slog.String("code", code), slog.Any("error", err), slog.String("address", c.RealIP()))
	return c.Redirect(http.StatusSeeOther, "/#signin="+url.QueryEscape(code))
}

// logout ends the session here, and returns where it ends at the provider. The page goes to the provider itself, with
// the address that is returned, since only a navigation carries the provider's cookies. A browser that is signed in
// nowhere gets the same answer.
func (h *signIn) logout(c echo.Context) error {
	var body struct{}
	if err := h.in.SmallJSON(c, &body); err != nil { // no credential was shown yet
		return err
	}
	ctx := c.Request().Context()
	// A bad or missing credential is no reason to refuse: what is asked for, no session here, is so already.
	if caller, err := h.auth.Caller(c.Request(), auth.KindApprover); err == nil {
		gone, err := h.auth.SignOut(c.Request(), caller)
		if err != nil {
			return err
		}
		c.SetCookie(gone)
	}
	out := struct {
		Redirect string `json:"redirect,omitempty"`
	}{}
	if o := h.auth.OIDC(); o != nil {
		out.Redirect = o.EndSession(ctx, h.base(c)+"/")
	}
	return c.JSON(http.StatusOK, out)
}

// base is this server's URL as browsers see it. The guard has judged the Host. The public URL has to be set behind a
// proxy: the provider compares the callback's address with the registered one.
func (h *signIn) base(c echo.Context) string {
	if h.public != "" {
		return strings.TrimRight(h.public, "/")
	}
	scheme := "http"
	if c.IsTLS() {
		scheme = "https"
	}
	return scheme + "://" + c.Request().Host
}

// secure reports whether cookies may be bound to https: the request came by it, or people reach the server by it
// through a proxy.
func (h *signIn) secure(c echo.Context) bool {
	return c.IsTLS() || strings.HasPrefix(h.public, "https://")
}
