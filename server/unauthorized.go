// This file words refusals. A 401 names the credentials that its route accepts and, for a credential of another kind, the
// routes that it opens. It is the same for a forged, an expired and a revoked credential. Pages cannot read a refused
// WebSocket handshake, so they get the reason as a close frame.

package server

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/server/wsconn"
)

// fitted words the refusal of a credential by the kind that it claims. A forged credential gets the words of a valid one.
func fitted(r *http.Request, err error) error {
	if problem.Of(err).Code != problem.Unauthorized {
		return err
	}
	var detail string
	switch auth.Shown(r) {
	case auth.ShownAgent:
		detail = "This is an agent's token. It opens the routes for agents: tools, models, context, other agents. People, pages and programs call this route with tokens of their own."
	case auth.ShownKey:
		detail = "This API key is not good: it was revoked, has ended, or is not this server's. An administrator makes another: aqueduct service-account create (with --agent for what agents call)."
	case string(auth.TypeACPProxy):
		detail = "This is a proxy's token. It opens /ws/agent and nothing else."
	case string(auth.TypeBootstrap):
		detail = "This is a bootstrap token. A proxy sends it to POST /api/admin/acp-proxy/register as x-acp-proxy-bootstrap; it opens nothing else."
	case string(auth.TypeChannel):
		detail = "This is a channel's token. It is the api_key of a hello at /ws/ingress and opens nothing else."
	case string(auth.TypeMCP):
		detail = "This is an MCP client's token. It calls tools at POST /mcp and opens nothing else. Decide, chat and make tokens with a credential of your own."
	case string(auth.TypeApprover):
		detail = "This is an approver's token. It opens the inbox and the permission sockets, not this route."
	default:
		return err
	}
	return errors.Join(problem.Refuse(problem.Unauthorized, detail), err)
}

// crossSite reports whether the browser treats the request's page as one of another site, so that it neither keeps nor sends
// the session's cookie (SameSite=Strict). If the browser does not report that, two names of this machine count as two sites.
func crossSite(r *http.Request) bool {
	if said := r.Header.Get("Sec-Fetch-Site"); said != "" {
		return said == "cross-site"
	}
	page, here := twoLoopbacks(r)
	return page != here
}

// twoLoopbacks returns the names of this machine that the page and the request use, if they differ: browsers treat localhost
// and 127.0.0.1 as different sites. Otherwise both are "".
func twoLoopbacks(r *http.Request) (page, here string) {
	u, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || u.Host == "" {
		return "", ""
	}
	page, here = hostName(u.Host), hostName(r.Host)
	if !loopbackName(page) || !loopbackName(here) || page == here {
		return "", ""
	}
	return page, here
}

// twinPage reports whether the page is this server's own under another name of this machine: the port is the same.
func twinPage(r *http.Request) bool {
	page, _ := twoLoopbacks(r)
	u, err := url.Parse(r.Header.Get("Origin"))
	return page != "" && err == nil && u.Port() == portOf(r.Host)
}

// portOf returns the port of a Host, or "".
func portOf(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return ""
	}
	return port
}

func loopbackName(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip != nil && ip.IsLoopback()
}

// tellPage answers a page's refused handshake by a WebSocket that closes at once with 1008 and the reason. It serves pages
// that may call but have no valid credential, and this server's own page under another name of this machine. It does not
// answer any other page, and reports whether it has answered.
func tellPage(c echo.Context, p *problem.Problem) bool {
	r := c.Request()
	if r.Header.Get("Origin") == "" || !websocket.IsWebSocketUpgrade(r) {
		return false
	}
	page, here := twoLoopbacks(r)
	why := ": sign in first, POST /api/session, and POST /api/tickets; the page and this server must be of one site"
	if page != "" {
		why = ": the page is on " + page + ", the socket on " + here + ": two sites to a browser. Use one name for both"
	}
	if p.Code != problem.Unauthorized && (p.Code != problem.ForbiddenOrigin || !twinPage(r)) {
		return false
	}
	return wsconn.Refuse(c, websocket.ClosePolicyViolation, p.Code+why) == nil
}

// crossSiteAdvice returns the detail of cross_site_session with the two conflicting names; "" if they are not names of this
// machine.
func crossSiteAdvice(r *http.Request) string {
	page, here := twoLoopbacks(r)
	if page == "" {
		return ""
	}
	return "The page is on " + page + " and signs in at " + here + ": two sites to a browser, which would neither keep nor send the session's cookie. " +
		"Open the page under " + here + ", or let it call " + page + "."
}
