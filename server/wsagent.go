// The WebSocket of acp-proxies. The edge only mounts it: the gateway (acpgateway) checks the token, speaks the
// protocol and counts its own connections.

package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/route"
)

// agentSocket is /ws/agent: proxies have tokens of their own, which the gateway looks at.
type agentSocket struct{ gateway http.Handler }

// Without a gateway the route does not exist, so a proxy that is pointed at the wrong server gets 404.
func (h *agentSocket) Mount(to *route.Routes) {
	if h.gateway != nil {
		to.Open(http.MethodGet, "/ws/agent", echo.WrapHandler(h.gateway))
	}
}
