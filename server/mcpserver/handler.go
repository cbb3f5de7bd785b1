// This file takes the requests. The protocol's library answers them, but it is made for a server that lives as long
// as its sessions; here each request gets a server of its own, with the tools that the request names and no others,
// and is answered in the library's stateless mode.

package mcpserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/strictjson"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Config is what a Handler needs.
type Config struct {
	Version string
	// Requests takes the calls of agents, Calls those of users' programs.
	Requests *bridge.AgentRequests
	Calls    *bridge.ClientCalls
	// Approvals settles what the person at a program decides.
	Approvals *approval.Service
	// Store is read for the tools there are.
	Store store.Store
	// Agent is the token of the agent that calls, and its user; isAgent whether the request has such a token at all.
	Agent   func(c echo.Context) (token string, who store.Principal, err error)
	IsAgent func(c echo.Context) bool
	In      *decode.Decoder
	Logger  *slog.Logger
	// Draining ends when the server goes away; calls that are held are cut then.
	Draining context.Context
}

// Handler is the route /mcp. Between requests it keeps only which calls were left by their clients (leftCalls), and whom it
// has asked the store about (adopter).
type Handler struct {
	cfg      Config
	protocol *mcp.StreamableHTTPHandler
	left     leftCalls
	adopter  adopter
	open     openRequests // that clients of revisions before 2026 may cancel
}

// maxBody bounds a request: the arguments of a tool, which are bounded themselves, and what stands around them.
const maxBody = 1 << 20

// maxBatch bounds the messages of a batch, which are worked on side by side, each perhaps held for as long as a
// person takes.
const maxBatch = 50

// New makes a Handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg, protocol: mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: slog.New(slog.DiscardHandler), // it logs what anyone may send
		MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the guard before all routes checks Host and Origin
	})}
	h.adopter = adopter{store: cfg.Store, left: &h.left, began: time.Now(), asked: make(map[string]*adoption)}
	return h
}

// Mount adds the route. It is open because a run token is no credential of a caller; a request without one is a user's. Programs
// call it, so the cookie of a browser's session counts for nothing.
func (h *Handler) Mount(to *route.Routes) {
	own := to.Beside(http.MethodPost, "/mcp", h.ofUser)
	to.Open(http.MethodPost, "/mcp", func(c echo.Context) error {
		if h.cfg.IsAgent(c) {
			return h.ofAgent(c)
		}
		c.Request().Header.Del("Cookie")
		return own(c)
	})
}

// ofAgent answers an agent. Its token stands for the Turn or the Session that its calls are in; nothing of the
// request chooses one.
func (h *Handler) ofAgent(c echo.Context) error {
	token, who, err := h.cfg.Agent(c)
	if err != nil {
		return err
	}
	return h.serve(c, who, &agent{requests: h.cfg.Requests, token: token, who: who})
}

// defaultThread is where the calls of a user's programs are that name no thread.
const defaultThread = "mcp"

// programQuery names the thread.
type programQuery struct {
	Thread string `query:"thread" validate:"max=512"`
}

// ofUser answers a user's program, behind the authentication of all routes (Mount). Its calls are in the thread that
// the query names.
func (h *Handler) ofUser(c echo.Context) error {
	var q programQuery
	if err := h.cfg.In.Query(c, &q); err != nil {
		return err
	}
	from := auth.From(c.Request().Context())
	who := from.Principal
	if err := h.cfg.In.MayInvoke(c, who); err != nil {
		return err
	}
	if q.Thread == "" {
		q.Thread = defaultThread
	}
	header := c.Request().Header
	return h.serve(c, who, &program{calls: h.cfg.Calls, approvals: h.cfg.Approvals, who: who, decides: from.Kind != auth.KindMCP, request: bridge.ClientRequest{
		ThreadID: q.Thread, Client: "An MCP client", Traceparent: header.Get("traceparent"), Tracestate: header.Get("tracestate"),
	}})
}

// serve answers one request by a protocol server of its own, which has what the request asks for and nothing else: listing
// every tool for every call would cost more than the call.
func (h *Handler) serve(c echo.Context, who store.Principal, from caller) error {
	body, err := h.cfg.In.BodyOf(c, who, maxBody)
	if err != nil {
		return err
	}
	if strictjson.TooMany(body, strictjson.MostMessageValues) {
		return problem.Refuse(problem.InvalidBody, fmt.Sprintf("A request has at most %d values.", strictjson.MostMessageValues))
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	// A server that goes away cuts the calls that it holds. Their clients make them again, at this server or another,
	// and get what became of them (left.go, adopt.go).
	defer context.AfterFunc(h.cfg.Draining, cancel)()
	asks := wantedBy(body)
	if err := h.mayBatch(c, who, asks.messages); err != nil {
		return err
	}
	defer h.named(c, from, asks, cancel)()
	out := &responseStream{ResponseWriter: c.Response(), c: c, in: h.cfg.In}
	defer out.end()
	server, err := h.server(ctx, &call{from: from, left: &h.left, adopter: &h.adopter, request: ctx, beat: out.beat}, asks)
	if err != nil {
		return err
	}
	req := c.Request().WithContext(context.WithValue(ctx, serverKey{}, server))
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.protocol.ServeHTTP(out, req)
	return nil
}

// mayBatch counts the messages of a batch behind the first, which the request itself was counted for: each may be a
// call. The revision of June 2025 took batches out of the protocol.
func (h *Handler) mayBatch(c echo.Context, who store.Principal, messages int) error {
	if messages > maxBatch {
		return problem.Refuse(problem.InvalidBody, fmt.Sprintf("A batch has at most %d messages.", maxBatch))
	}
	for range messages - 1 {
		if err := h.cfg.In.MayInvoke(c, who); err != nil {
			return err
		}
	}
	return nil
}

// named does what hangs on the name of the client: a request that begins gets one, one that gives up a call ends that one's, and
// any other can be given up until the function that it returns is called.
func (h *Handler) named(c echo.Context, from caller, asks wanted, cancel context.CancelFunc) (done func()) {
	name := c.Request().Header.Get(sessionHeader)
	key := func(id string) string { return from.key() + "\x00" + name + "\x00" + id }
	switch {
	case asks.begins:
		c.Response().Header().Set(sessionHeader, newClientName())
	case name == "":
	case asks.givesUp != "":
		h.open.cancel(key(asks.givesUp))
	case asks.id != "":
		return h.open.add(key(asks.id), cancel)
	}
	return func() {}
}

type serverKey struct{}

// serverOf is the server that serve made for the request.
func serverOf(r *http.Request) *mcp.Server {
	server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return server
}
