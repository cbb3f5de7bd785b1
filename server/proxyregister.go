package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
)

const (
	headerBootstrap = "X-Acp-Proxy-Bootstrap"
	// proxyTokenTime is how long a token got here is good. A proxy that registers at each
	// start needs no longer one.
	proxyTokenTime = 30 * 24 * time.Hour
	// minBootstrap keeps out bootstrap tokens that can be guessed by trying.
	minBootstrap = 16
)

// ProxyAccess is how acp-proxies get their tokens.
type ProxyAccess struct {
	Keys *auth.Keys
	// Bootstrap is what a proxy shows to get one; "" lets none register.
	Bootstrap auth.Secret
}

// proxyRegister is POST /api/admin/acp-proxy/register: a proxy gets its token. Shapes and
// codes are those of the proxies that exist, so refusals are no problems here.
type proxyRegister struct {
	access ProxyAccess
	in     *intake
	log    *slog.Logger
}

func newProxyRegister(cfg Config, in *intake) (*proxyRegister, error) {
	h := &proxyRegister{in: in, log: cfg.Logger}
	if cfg.Proxies != nil {
		h.access = *cfg.Proxies
	}
	h.access.Bootstrap = auth.Secret(strings.TrimSpace(string(h.access.Bootstrap)))
	if n := len(h.access.Bootstrap); n > 0 && (n < minBootstrap || h.access.Keys == nil) {
		return nil, fmt.Errorf("server: the bootstrap token must have at least %d characters, and a key to sign with", minBootstrap)
	}
	return h, nil
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
}

func (h *proxyRegister) register(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	given := c.Request().Header.Values(headerBootstrap)
	switch {
	case h.access.Bootstrap == "":
		return refuseProxy(c, http.StatusNotFound, "NOT_FOUND", "No bootstrap token is configured; see --bootstrap-file.")
	case len(given) != 1 || !h.access.Bootstrap.Is(given[0]):
		return refuseProxy(c, http.StatusUnauthorized, "UNAUTHORIZED", "The bootstrap token is not the right one.")
	}
	var body registerBody
	if err := h.in.json(c, &body); err != nil {
		p := report(h.log, c, err)
		return refuseProxy(c, p.Status, "BAD_REQUEST", p.Detail)
	}
	if !bridge.ValidName(body.ProxyID) {
		return refuseProxy(c, http.StatusBadRequest, "BAD_REQUEST", "proxyId must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	token, err := h.access.Keys.Issue(auth.Claims{
		Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: body.ProxyID, Name: body.Name},
	}, proxyTokenTime)
	if err != nil {
		return err
	}
	h.log.Info("a proxy got a token", slog.String("proxy", body.ProxyID))
	return c.JSON(http.StatusOK, registered{Success: true, Data: &registerData{token}})
}

func refuseProxy(c echo.Context, status int, code, message string) error {
	return c.JSON(status, registered{Error: &registerError{code, message}})
}
