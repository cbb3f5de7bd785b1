package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/proxies"
	"aqueduct/server/auth"
	"aqueduct/server/brake"
	"aqueduct/store"
)

const (
	headerBootstrap = "X-Acp-Proxy-Bootstrap"
	// proxyTokenTime is how long a token got here is good. A proxy renews it in time, with the token itself.
	proxyTokenTime = 30 * 24 * time.Hour
)

// registerFailures is how often an address may fail to register: a bootstrap token cannot be guessed, so that whoever fails
// this often tries tokens that were used, or is misconfigured and would fill the audit.
var registerFailures = brake.Rate{PerSecond: 0.1, Burst: 10}

// ProxyAccess is how acp-proxies get their tokens.
type ProxyAccess struct {
	// Keys sign and check them. They are asked for when a proxy comes: a server without proxies needs no key.
	Keys func() (*auth.Keys, error)
	// Admit refuses a proxy's own token that was revoked; nil refuses none.
	Admit func(context.Context, store.Credential) error
	// Made keeps a token that a proxy got here, by the one it renewed, whose revocation ends both; nil keeps none. A thief
	// of a token could otherwise renew it to one that nobody can list.
	Made func(ctx context.Context, c store.Credential, by string) error
	// Reserved reports ids that no proxy gets a token for here: those of agents that are behind no proxy elsewhere. nil is none.
	Reserved func(id string) bool
	// Now is the clock of the brake on failures; nil is the real one.
	Now func() time.Time
}

// proxyRegister is POST /api/admin/acp-proxy/register: a proxy gets its token, the first by a bootstrap token that is for it
// alone and works once, any other by the one it has. Shapes and codes are those of the proxies that exist, so refusals are no
// problems here.
type proxyRegister struct {
	access ProxyAccess
	known  *proxies.Registry
	in     *intake
	failed *brake.Brake // by address
	now    func() time.Time
	log    *slog.Logger
}

func newProxyRegister(cfg Config, in *intake) *proxyRegister {
	h := &proxyRegister{in: in, known: proxies.New(cfg.Store), log: cfg.Logger, now: time.Now}
	if cfg.Proxies != nil {
		h.access = *cfg.Proxies
	}
	if h.access.Now != nil {
		h.now = h.access.Now
	}
	h.failed = brake.NewAt(registerFailures, h.now)
	return h
}

func (h *proxyRegister) mount(to *routes) {
	// Its credential is its own.
	to.open(http.MethodPost, "/api/admin/acp-proxy/register", h.register)
}

type registerBody struct {
	ProxyID string `json:"proxyId" validate:"required,max=128"`
	Name    string `json:"name" validate:"max=200"`
}

type registered struct {
	Success bool           `json:"success"`
	Data    *registerData  `json:"data,omitempty"`
	Error   *registerError `json:"error,omitempty"`
}

type registerData struct {
	Token string `json:"token"`
}

type registerError struct {
	Code    string `json:"code"`
	Message string `json:"message"`

	status int
}

func (e *registerError) Error() string { return e.Code }

func refusedRegister(status int, code, message string) error {
	return &registerError{Code: code, Message: message, status: status}
}

func (h *proxyRegister) register(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	if h.access.Keys == nil {
		return c.JSON(http.StatusNotFound, registered{Error: &registerError{Code: "NOT_FOUND", Message: "No proxy can register here."}})
	}
	token, id, err := h.issue(c)
	var refusal *registerError
	if errors.As(err, &refusal) {
		return h.refuse(c, id, refusal)
	}
	if err != nil {
		return err
	}
	h.log.Info("a proxy got a token", slog.String("proxy", id), slog.String("remote", c.RealIP()))
	return c.JSON(http.StatusOK, registered{Success: true, Data: &registerData{token}})
}

// refuse answers and audits a failure. After too many from one address it says 429 and audits no more of them: good tokens
// from there still pass, for an office or a reverse proxy is one address to us.
func (h *proxyRegister) refuse(c echo.Context, id string, refusal *registerError) error {
	if wait, ok := h.failed.Take(brake.Address(c.Request().RemoteAddr)); !ok {
		c.Response().Header().Set("Retry-After", strconv.Itoa(brake.RetryAfter(wait)))
		return c.JSON(http.StatusTooManyRequests, registered{Error: &registerError{
			Code: "TOO_MANY_REQUESTS", Message: "Too many registrations from this address failed. Retry-After says when to try again.",
		}})
	}
	h.audit(c, id, refusal)
	return c.JSON(refusal.status, registered{Error: refusal})
}

// issue makes the token, for the proxy of an id. The credential is checked before the body is read.
func (h *proxyRegister) issue(c echo.Context) (token, id string, err error) {
	keys, err := h.access.Keys()
	if err != nil {
		return "", "", err
	}
	header := c.Request().Header
	bootstrap, own := header.Values(headerBootstrap), header.Values("Authorization")
	if len(own) > 0 && len(bootstrap) == 0 {
		claims, credential, _, err := keys.ProxyCredential(c.Request())
		if err == nil && h.access.Admit != nil {
			err = h.access.Admit(c.Request().Context(), credential)
		}
		if errors.Is(err, auth.ErrBadCredential) || errors.Is(err, auth.ErrNoCredential) {
			err = unauthorizedProxy()
		}
		if err != nil {
			return "", claims.ProxyID, err
		}
		return h.renew(c, keys, claims, credential.ID)
	}
	if len(bootstrap) != 1 {
		return "", "", unauthorizedProxy()
	}
	boot, err := keys.Bootstrap(strings.TrimSpace(bootstrap[0]))
	if err != nil {
		return "", "", unauthorizedProxy()
	}
	return h.enrol(c, keys, boot)
}

func unauthorizedProxy() error {
	return refusedRegister(http.StatusUnauthorized, "UNAUTHORIZED", "The bootstrap token, or the proxy's own, is not good.")
}

// body reads which proxy it is, and refuses another than the credential names.
func (h *proxyRegister) body(c echo.Context, proxyID string) (registerBody, error) {
	var body registerBody
	if err := h.in.json(c, &body); err != nil {
		p := report(h.log, c, err)
		return body, refusedRegister(p.Status, "BAD_REQUEST", p.Detail)
	}
	switch {
	case !bridge.ValidName(body.ProxyID):
		return body, refusedRegister(http.StatusBadRequest, "BAD_REQUEST", "proxyId must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	case body.ProxyID != proxyID:
		return body, refusedRegister(http.StatusForbidden, "FORBIDDEN", "The token is for another proxy.")
	case auth.ReservedProxy(body.ProxyID) || h.access.Reserved != nil && h.access.Reserved(body.ProxyID):
		return body, refusedRegister(http.StatusForbidden, "RESERVED", "The id is that of an agent of this server.")
	}
	return body, nil
}

// renew gives a proxy that has a token another, for the same.
func (h *proxyRegister) renew(c echo.Context, keys *auth.Keys, claims auth.ProxyClaims, by string) (token, id string, err error) {
	if _, err := h.body(c, claims.ProxyID); err != nil {
		return "", claims.ProxyID, err
	}
	token, err = keys.IssueProxy(auth.TypeACPProxy, claims, proxyTokenTime)
	if err == nil {
		err = h.made(c, keys, token, by)
	}
	if err == nil {
		err = h.known.Audit(c.Request().Context(), ourselves(), audit.ProxyRegistered, claims.ProxyID, map[string]string{"by": "own token", "remote_addr": c.RealIP()})
	}
	return token, claims.ProxyID, err
}

// enrol makes a new proxy known. A known one is refused: whoever has a bootstrap token could take its place otherwise, and
// get its conversations.
func (h *proxyRegister) enrol(c echo.Context, keys *auth.Keys, boot auth.Bootstrap) (token, id string, err error) {
	body, err := h.body(c, boot.ProxyID)
	if err != nil {
		return "", boot.ProxyID, err
	}
	claims := boot.ProxyClaims
	if claims.Name == "" {
		claims.Name = body.Name
	}
	if token, err = keys.IssueProxy(auth.TypeACPProxy, claims, proxyTokenTime); err != nil {
		return "", boot.ProxyID, err
	}
	agent := claims.AgentID
	if agent == "" {
		agent = claims.ProxyID
	}
	err = h.known.Enrol(c.Request().Context(), proxies.Enrolment{
		TokenID: boot.TokenID, ExpiresAt: boot.Until, ProxyID: claims.ProxyID, Name: claims.Name, AgentID: agent, Remote: c.RealIP(),
	}, time.Now())
	switch {
	case errors.Is(err, proxies.ErrTokenUsed):
		err = unauthorizedProxy()
	case errors.Is(err, proxies.ErrProxyKnown):
		err = refusedRegister(http.StatusConflict, "PROXY_KNOWN", "A proxy of this id is known. It renews its token with the token it has; an operator can remove it.")
	case err == nil:
		err = h.made(c, keys, token, "")
	}
	return token, boot.ProxyID, err
}

// made keeps a token before it is handed out.
func (h *proxyRegister) made(c echo.Context, keys *auth.Keys, token, by string) error {
	if h.access.Made == nil {
		return nil
	}
	credential, err := keys.ProxyTokenCredential(token)
	if err != nil {
		return err
	}
	return h.access.Made(c.Request().Context(), credential, by)
}

func (h *proxyRegister) audit(c echo.Context, id string, refusal *registerError) {
	ctx := context.WithoutCancel(c.Request().Context()) // a caller that leaves is audited too
	err := h.known.Audit(ctx, ourselves(), audit.ProxyRegisterRefused, id, map[string]string{"code": refusal.Code, "remote_addr": c.RealIP()})
	if err != nil {
		h.log.Error("a refused registration is not in the audit", slog.String("proxy", id), slog.Any("error", err))
	}
}

// ourselves is the actor of what a proxy does, which is nobody's. Operators read the audit of this tenant.
func ourselves() store.Principal { return audit.Nobody(store.LocalPrincipal().Tenant) }
