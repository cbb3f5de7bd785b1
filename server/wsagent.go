package server

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// agentSocket is /ws/agent: proxies have tokens of their own, which the gateway looks at.
type agentSocket struct{ gateway http.Handler }

func (h *agentSocket) mount(to *routes) {
	if h.gateway != nil {
		to.open(http.MethodGet, "/ws/agent", echo.WrapHandler(h.gateway))
	}
}
