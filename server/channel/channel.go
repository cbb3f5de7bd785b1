// Package channel is the platform contract's channel: /ws/ingress for clients with a socket, and POST /v1/ingress for those
// with a callback. A connection's dispatcher executes messages; a subscription sends what the log of one session holds.
package channel

import (
	"log/slog"
	"net/http"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/channelfeed"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// Handler serves /ws/ingress: the channel of the platform contract's §5, for clients that send one message at a time and
// show what comes back. It has no logic of Runs: a client's message becomes the same call as a POST, and the answers are
// read from the log.
type Handler struct{ Config }

// Config is what the handlers of the channel need. It does not change after New; its parts are safe for all
// goroutines.
type Config struct {
	Sessions  *bridge.Sessions
	Queue     Queue
	Approvals *approval.Service
	Store     store.Store
	Auth      *auth.Auth
	In        *decode.Decoder
	Open      *limit.Sockets
	Log       *slog.Logger
	Audit     *audit.Log
	// Kick has the outbox sent, because a delivery to a channel was committed; nil is not called.
	Kick func()
}

// Mount adds GET /ws/ingress.
func (h *Handler) Mount(to *route.Routes) {
	// The route is open: the first message authenticates.
	to.Open(http.MethodGet, "/ws/ingress", h.get)
	tasks{h}.mount(to)
}

// get accepts a socket. The slot is awaited after the upgrade and not before: a client gets a close
// frame with a reason, where a refused upgrade would show it nothing but a failed connection.
func (h *Handler) get(c echo.Context) error {
	if err := wsconn.CheckUpgrade(c.Request()); err != nil {
		return err
	}
	if h.Open.Draining.Err() != nil {
		return problem.Refuse(limit.ShuttingDown, "")
	}
	l, err := wsconn.Open(c, h.In.Limits)
	if err != nil {
		return err
	}
	slot, err := h.Open.Await(limit.Address(c.Request().RemoteAddr), func() {
		l.End(websocket.CloseTryAgainLater, limit.TooManyStreams)
	})
	if err != nil { // it has begun to drain
		l.End(websocket.CloseGoingAway, limit.ShuttingDown)
		l.Goodbye()
		return nil
	}
	defer slot.Leave()
	s := &connection{Conn: l, slot: slot, dispatcher: dispatcher{h: h, remote: c.Request().RemoteAddr}, c: c}
	s.before = s.subscribeBefore
	l.Serve(h.Open.Draining, s.run)
	return nil
}

// New makes the handlers of /ws/ingress and of POST /v1/ingress. The two share the dispatcher and
// the reader of logs, so that a client finds the same seqs on either.
func New(cfg Config, hooks Webhooks) (*Handler, *WebhookHandler, error) {
	h := &Handler{cfg}
	relay := channelfeed.New(channelfeed.Config{Store: cfg.Store, Log: cfg.Log, Kind: OutboxKind, Open: h.openPosition, Kick: cfg.Kick})
	hook := &WebhookHandler{Handler: h, hooks: hooks, relay: relay}
	cfg.Queue.OnBegun(hook.begun)
	cfg.Queue.OnEnded(hook.ended)
	return h, hook, hooks.check()
}
