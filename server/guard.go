// The door of the server: every request passes check before it is routed and, where its route asks for it,
// authenticate before its handler. What check refuses costs no database query and holds no body.

package server

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

// guard is what every request passes before any handler sees it. A browser runs pages of strangers, so on loopback
// too a request proves where it comes from: by its Host (DNS rebinding), its Origin, and a content type no HTML form
// can send. It is made once and never changes, so it needs no lock.
type guard struct {
	auth *auth.Auth
	// hosts and origins are in lower case, hosts without port, origins with scheme and port.
	hosts   map[string]bool
	origins map[string]bool
	limits  limit.Limits
	in      *decode.Decoder
	open    *limit.Sockets
}

// An origin that is no origin ("*", one with a path) is refused at the start: a pattern that silently matched nothing
// would be taken for a fault of the page.
func newGuard(cfg Config, in *decode.Decoder, open *limit.Sockets) (*guard, error) {
	g := &guard{
		auth: cfg.Auth, limits: cfg.Limits, in: in, open: open, origins: make(map[string]bool),
		hosts: map[string]bool{"localhost": true},
	}
	for _, host := range cfg.Hosts {
		g.hosts[hostName(host)] = true
	}
	for _, origin := range cfg.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Host == "*" || strings.TrimRight(u.Path, "/") != "" {
			return nil, fmt.Errorf("server: %q is not an origin such as https://app.example.com", origin)
		}
		g.origins[u.Scheme+"://"+strings.ToLower(u.Host)] = true
	}
	return g, nil
}

// check refuses what comes from where it may not, before it is routed. The order is fixed: deadlines first, so that
// even a refused request cannot hold its connection; then the boundary of --auth none; then Host, Origin and content
// type. A preflight ends here, after its Origin was judged and without a credential, because browsers send none with
// it.
func (g *guard) check(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := auth.TakeTicket(c.Request())
		// Entries of the audit are written deep in the engine, which knows no request: the address comes to them by
		// the context.
		c.SetRequest(r.WithContext(audit.WithRemote(r.Context(), r.RemoteAddr)))
		h := c.Response().Header()
		h.Set("X-Content-Type-Options", "nosniff")
		// The headers for other origins depend on who asks, and a cache must not give one page's answer to another.
		h.Add("Vary", "Origin")
		// Handlers that set cookies ask for it; the guard alone knows how people reach the server.
		c.Set(secureCookies, g.auth.Secure(r))
		// A reader that takes nothing cannot hold a connection; streams set their own.
		rc := http.NewResponseController(c.Response())
		_ = rc.SetWriteDeadline(time.Now().Add(g.limits.AnswerTime))
		if r.ContentLength != 0 {
			// net/http reads the rest of a body that a handler did not want. Without a deadline one that
			// never comes would hold the connection for ever. Who reads the body moves the deadline.
			_ = rc.SetReadDeadline(time.Now().Add(g.limits.BodyTime))
		}
		// Whichever handler reads the body, and however it ends, the budget gets back what the request holds.
		defer decode.ReleaseBody(c)
		// A proxy on this machine would make the whole network a local caller.
		if header := forwardedBy(r.Header); header != "" && g.auth.Open() {
			return problem.Refuse(problem.Forwarded, forwardedAdvice(header))
		}
		if !g.knownHost(r) {
			return problem.Refuse(problem.ForeignHost, foreignHostAdvice(r.Host))
		}
		// Programs send no Origin and pass; browsers send one with every request that another site may have made.
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(r) && !g.allowed(h, origin, r.Host) {
			if twinPage(r) { // it may read only the reason
				letRead(h, origin)
				if r.Method == http.MethodOptions {
					return preflight(c)
				}
			}
			return problem.Refuse(problem.ForbiddenOrigin, forbiddenOriginAdvice(r, origin))
		}
		if r.Method == http.MethodOptions {
			return preflight(c)
		}
		// The wait of an agent has no body, and a token that no page of another site can send.
		if writes(r) && !sendsJSON(r) && !sendsBytes(r) && !agentWaits(c) {
			return problem.Refuse(problem.MediaType, "")
		}
		return next(c)
	}
}

// authenticate lets callers through. also names the kinds of callers beside users that the route admits. The context
// of the request becomes the caller's: it ends when the credential is revoked, on whichever replica that happened, or
// when it expires. Without that a stream that was opened with a stolen token would go on after the token was revoked.
func (g *guard) authenticate(also ...auth.Kind) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			caller, err := g.auth.Caller(c.Request(), also...)
			if errors.Is(err, auth.ErrNoPage) && fromPage(c.Request()) {
				return g.awaitTicket(c, next, also)
			}
			if err != nil {
				return g.in.Refused(c, fitted(c.Request(), err))
			}
			return g.as(c, caller, next)
		}
	}
}

// as runs a handler for its caller.
func (g *guard) as(c echo.Context, caller auth.Caller, next echo.HandlerFunc) error {
	// From here on the connection is not among those that newer ones may evict.
	if err := g.in.Known(c); err != nil {
		return err
	}
	// What the request opens, a stream or a socket, ends with the credential: when that is revoked
	// or expires.
	ctx, release := g.auth.Watch(c.Request().Context(), caller)
	defer release()
	if !caller.Until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, caller.Until, auth.ErrTokenExpired)
		defer stop()
	}
	c.SetRequest(c.Request().WithContext(auth.With(ctx, caller)))
	return next(c)
}

// knownHost: a page of a stranger can point a name of its own at this address, but it can neither choose a name of
// ours nor make its browser send an address as the name. A request to an address that is not a loopback listener
// passes with any address as its Host, because the server cannot know the addresses that a router translates to its
// own.
func (g *guard) knownHost(r *http.Request) bool {
	name := hostName(r.Host)
	if g.hosts[name] {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	return addr.Unmap().IsLoopback() || !localOnly(r)
}

// hostName is a Host or authority without port and brackets, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// localOnly reports whether the request came in on a loopback listener. A request without a local address is one of a
// test that calls the handler directly; the stricter rule holds for it.
func localOnly(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err != nil || ap.Addr().Unmap().IsLoopback()
}

// sameOrigin reports whether the browser itself declares page and request to be of one origin.
// Proxies that rewrite Host and keep Origin (Vite's changeOrigin, nginx's plain proxy_pass)
// make the two headers differ for a page of this very server; the browser compared what it
// saw before the proxy, and scripts cannot set a header whose name begins with "Sec-". A
// page that reached this server by rebinding a name of its own is same-origin too, so
// knownHost is checked first. "same-site" is not enough: it includes every other port of
// this host. WebSocket handshakes in Chromium, and plain http off loopback in every browser,
// come without the header and are judged by Origin against Host alone.
func sameOrigin(r *http.Request) bool {
	values := r.Header.Values("Sec-Fetch-Site")
	return len(values) == 1 && values[0] == "same-origin"
}

// allowed lets this server's own pages and those of listed origins in. The CORS headers go only to listed origins: a
// page of this server needs none, and a page of any other must not read the answer. Credentials are allowed, since
// the session is a cookie.
func (g *guard) allowed(h http.Header, origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" { // "null" among others
		return false
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	if !g.origins[u.Scheme+"://"+strings.ToLower(u.Host)] {
		return false
	}
	letRead(h, origin)
	h.Set("Access-Control-Expose-Headers", headerThread+", "+headerRun+", "+auth.PageHeader+", Link, ETag")
	return true
}

// letRead lets a page of another origin read the answer.
func letRead(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
}

// preflight names what pages of listed origins may send: every header this server reads of a request. TDesign always
// sends Cache-Control, so every one of its calls from another origin asks here first; a page that is traced sends the
// headers of W3C Trace Context. An origin that is not listed gets 204 without the headers, and its browser refuses
// the request. The answer is kept by browsers for ten minutes.
func preflight(c echo.Context) error {
	h := c.Response().Header()
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "content-type, authorization, cache-control, if-match, if-none-match, last-event-id, x-requested-with, x-thread-id, x-aqueduct-page, traceparent, tracestate")
		h.Set("Access-Control-Max-Age", "600")
	}
	return c.NoContent(http.StatusNoContent)
}

// writes reports whether the request may change something. DELETE is never sent by a form and has no body, so its
// content type does not matter. A DELETE with a body counts as a write, so that its content type is checked like a
// POST's.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return false
	case http.MethodDelete:
		return r.ContentLength != 0
	}
	return true
}

// sendsJSON accepts application/json, repeated as well: TDesign pages that spell the header in lower case send
// "application/json, application/json". A form or a plain fetch of another site can send three content types without
// a preflight (text/plain and the two of forms); JSON is none of them. This check is what stands between such a page
// and a POST with the user's cookie.
func sendsJSON(r *http.Request) bool {
	if r.Header.Get("Content-Encoding") != "" {
		return false // a small body must not grow to a large one in here
	}
	// A body without any type is refused too, since browsers send one without a preflight.
	types := strings.Split(strings.Join(r.Header.Values("Content-Type"), ","), ",")
	for _, t := range types {
		media, params, err := mime.ParseMediaType(t)
		if err != nil || media != "application/json" {
			return false
		}
		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return false
		}
	}
	return true
}

// bytesAt is where bytes of any type are stored, below it too.
const bytesAt = "/v1/context"

// sendsBytes accepts other types than JSON where bytes are stored. A browser asks before it sends a PUT, a header
// Authorization, or a type that no form has. With the types of forms it sends its Origin, which check has judged before; a request that has neither
// an Origin nor a header of its own is refused still, for a page of another site can have it sent.
func sendsBytes(r *http.Request) bool {
	path := r.URL.Path
	if path != attachmentsPath && path != bytesAt && !strings.HasPrefix(path, bytesAt+"/") || r.Header.Get("Content-Encoding") != "" {
		return false
	}
	if r.Method == http.MethodPut || r.Header.Get("Authorization") != "" || r.Header.Get("Origin") != "" {
		return true
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch media {
	case "", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded":
		return false
	}
	return err == nil
}
