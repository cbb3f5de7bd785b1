// Tickets: how a page opens what it can send no header with. A WebSocket, an EventSource, a picture and a download have
// nothing but their URL; a WebSocket has a first message as well.

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// tickets is /api/tickets. It keeps nothing: a ticket is signed, and its use is a row.
type tickets struct {
	auth *auth.Auth
	in   *decode.Decoder
}

// Mount adds the route.
func (h *tickets) Mount(to *route.Routes) {
	to.Deciders(http.MethodPost, "/api/tickets", withBody(h.in, h.issue))
}

// ticketBody names the route to open, as in "/ws/permissions/t1". A query may follow: a ticket is for the path.
type ticketBody struct {
	Path string `json:"path" validate:"required,max=2048"`
}

// ticketJSON is a ticket, and the path that was asked for with the ticket in it.
type ticketJSON struct {
	Ticket    string    `json:"ticket"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// issue makes a ticket of the caller's session. The request came with the page's secret, or by a cookie that is enough.
func (h *tickets) issue(c echo.Context, body ticketBody) error {
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	u, err := url.ParseRequestURI(body.Path)
	// A browser takes \ for /, and what begins with two of them for another host: the ticket would go there.
	if err != nil || !strings.HasPrefix(body.Path, "/") || strings.HasPrefix(body.Path, "//") || strings.ContainsAny(body.Path, `\#`) {
		return problem.Refuse(problem.InvalidBody, "At /path: must be the path of a route, such as /ws/permissions/t1, without scheme and host.")
	}
	ticket, until, err := auth.From(c.Request().Context()).Ticket(u.EscapedPath())
	if err != nil {
		return problem.Refuse(problem.NoSession, "")
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	join := "?"
	if u.RawQuery != "" {
		join = "&"
	}
	return c.JSON(http.StatusCreated, ticketJSON{string(ticket), body.Path + join + "ticket=" + string(ticket), until})
}

// A page's first message may be its ticket: {"type":"ticket","ticket":"…"}.
const (
	typeTicket = "ticket"
	// ticketWait is how long it may take. The page has the ticket before it connects.
	ticketWait = 5 * time.Second
	maxTicket  = 1 << 10
)

// fromPage reports whether a page opens a WebSocket: programs send no Origin, and can read an HTTP answer instead.
func fromPage(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Origin") != "" && websocket.IsWebSocketUpgrade(r)
}

// awaitTicket accepts the socket of a page whose cookie came without a ticket, and reads the ticket as its first message. Until
// then the socket is one of those that have not authenticated: it follows nothing, and newer ones may push it out. What the
// handler refuses after that is a close frame: the handshake is over.
func (g *guard) awaitTicket(c echo.Context, next echo.HandlerFunc, also []auth.Kind) error {
	conn, err := wsconn.Early(c, g.limits)
	if err != nil {
		return err
	}
	slot, err := g.open.Await(limit.Address(c.Request().RemoteAddr), conn.Cut)
	if err != nil {
		conn.Refuse(websocket.CloseTryAgainLater, problem.Of(err).Code)
		return nil
	}
	leave := context.AfterFunc(g.open.Draining, conn.Cut)
	caller, err := g.ticketOf(c, conn, also)
	leave()
	slot.Leave()
	if err == nil {
		err = g.as(c, caller, next)
	}
	switch p := problem.Of(err); {
	case err == nil: // its handler has served it
	case p.Code == problem.Unauthorized:
		conn.Refuse(websocket.ClosePolicyViolation, unticketed)
	default:
		conn.Refuse(websocket.ClosePolicyViolation, p.Code)
	}
	return nil
}

// unticketed is the close reason of a page's socket on plain http that came without a ticket. It fits a close frame.
const unticketed = problem.Unauthorized + ": no good ticket. POST /api/tickets {path}, then open it with ?ticket=… (docs/access.md)"

// ticketOf reads the first message of a page's socket and names the caller whose ticket it is.
func (g *guard) ticketOf(c echo.Context, conn *wsconn.Conn, also []auth.Kind) (auth.Caller, error) {
	raw, err := conn.ReadFirst(maxTicket, ticketWait)
	if err != nil {
		return auth.Caller{}, auth.ErrNoPage // it left, or sent nothing
	}
	var first struct {
		Type   string `json:"type"`
		Ticket string `json:"ticket"`
	}
	if err := json.Unmarshal(raw, &first); err != nil || first.Type != typeTicket {
		return auth.Caller{}, auth.ErrNoPage
	}
	caller, err := g.auth.Caller(auth.WithTicket(c.Request(), cmp.Or(first.Ticket, "none")), also...)
	return caller, g.in.Refused(c, err)
}
