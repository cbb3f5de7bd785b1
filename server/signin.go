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

	"aqueduct/bridge"
	"aqueduct/server/auth"
)

const (
	oidcPath     = "/api/session/oidc/"
	oidcLogin    = oidcPath + "login"
	oidcCallback = oidcPath + "callback"
	oidcLogout   = oidcPath + "logout"
)

// Codes of a sign-in at an OpenID provider. The page at "/" gets them after '#'; issuer_unavailable is also that of a problem,
// when a bearer token cannot be checked.
const (
	codeSignInFailed  = "signin_failed"
	codeSignInDenied  = "signin_denied"
	codeSignInState   = "signin_expired"
	codeSignInUnknown = "signin_not_mapped"
	codeIssuer        = "issuer_unavailable"
)

// signIn is how people sign in: who is signed in now, and the way to an OpenID provider and back.
type signIn struct {
	auth     *auth.Auth
	sessions *bridge.Sessions
	in       *intake
	public   string // where people reach this server; "" is where the request came
	log      *slog.Logger
}

func (h *signIn) mount(to *routes) {
	to.open(http.MethodGet, "/api/session", h.who)
	to.open(http.MethodGet, oidcLogin, h.login)
	to.open(http.MethodGet, oidcCallback, h.callback)
	to.open(http.MethodPost, oidcLogout, h.logout)
}

// whoJSON says who calls, and how somebody may sign in who is nobody yet.
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

func (h *signIn) who(c echo.Context) error {
	var out whoJSON
	switch caller, err := h.auth.Caller(c.Request(), auth.KindApprover); {
	case err == nil:
		out = whoJSON{
			SignedIn: true, Kind: string(caller.Kind), Tenant: caller.Principal.Tenant, User: caller.Principal.User,
			Roles: caller.Principal.Roles, Until: moment(caller.Until),
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

// login sends the browser to the provider.
func (h *signIn) login(c echo.Context) error {
	o := h.auth.OIDC()
	if o == nil {
		return refuse(codeNotFound, "")
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	to, begun, err := o.Begin(c.Request().Context(), h.base(c)+oidcCallback)
	if err != nil {
		return h.failed(c, err)
	}
	c.SetCookie(begun.Cookie(oidcPath, h.secure(c)))
	return c.Redirect(http.StatusSeeOther, to)
}

// callback takes the browser back with a session of ours. The cookie is SameSite=Strict and this request
// comes from the provider's page, so the page at "/" is where it is first sent along.
func (h *signIn) callback(c echo.Context) error {
	o := h.auth.OIDC()
	if o == nil {
		return refuse(codeNotFound, "")
	}
	h1 := c.Response().Header()
	h1.Set("Cache-Control", "no-store")
	h1.Set("Referrer-Policy", "no-referrer") // the URL holds the code
	begun, forget := auth.SignInOf(c.Request(), c.QueryParam("state"), oidcPath, h.secure(c))
	c.SetCookie(forget)
	ctx, cancel := context.WithTimeout(c.Request().Context(), 30*time.Second)
	defer cancel()
	who, until, err := o.Finish(ctx, h.base(c)+oidcCallback, begun, c.QueryParams())
	if err != nil {
		return h.failed(c, err)
	}
	if err := h.sessions.OpenedSession(ctx, who, o.Issuer()); err != nil {
		return h.failed(c, err)
	}
	cookie, err := h.auth.StartSession(ctx, auth.Session{Tenant: who.Tenant, User: who.User, Roles: who.Roles, For: auth.TypeUser, Until: until}, h.secure(c))
	if err != nil {
		return h.failed(c, err)
	}
	c.SetCookie(cookie)
	return c.Redirect(http.StatusSeeOther, "/")
}

// failed brings a person back to the page with a code: a problem as JSON is nothing to look at.
func (h *signIn) failed(c echo.Context, err error) error {
	code := codeSignInFailed
	switch {
	case errors.Is(err, auth.ErrNotMapped):
		code = codeSignInUnknown
	case errors.Is(err, auth.ErrSignInState):
		code = codeSignInState
	case errors.Is(err, auth.ErrSignInDenied):
		code = codeSignInDenied
	case errors.Is(err, auth.ErrIssuer):
		code = codeIssuer
	}
	h.log.Warn("nobody was signed in", slog.String("code", code), slog.Any("error", err), slog.String("address", c.RealIP()))
	return c.Redirect(http.StatusSeeOther, "/#signin="+url.QueryEscape(code))
}

// logout ends the session here, and says where it ends at the provider.
func (h *signIn) logout(c echo.Context) error {
	var body struct{}
	if err := h.in.smallJSON(c, &body); err != nil { // nobody has shown a credential yet
		return err
	}
	ctx := c.Request().Context()
	if caller, err := h.auth.Caller(c.Request(), auth.KindApprover); err == nil {
		gone, err := h.auth.SignOut(ctx, caller, h.secure(c))
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

// base is this server's URL as browsers see it. The guard has judged the Host.
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

func (h *signIn) secure(c echo.Context) bool {
	return c.IsTLS() || strings.HasPrefix(h.public, "https://")
}
