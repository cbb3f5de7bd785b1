// The live feed for pages: /ws/client sends what happens now (livefeed), such as agents that connect and frames as
// they arrive. A page that needs everything reads the log; this socket may lose frames when its page is slow.

package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge/livefeed"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/route"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// clientSockets is /ws/client: hints for pages about what happens now. It sends only what the caller may see, and may
// drop some of that: the log is complete. It keeps nothing; the hub has the subscriptions.
type clientSockets struct {
	hub   *livefeed.Hub
	store store.Store
	in    *decode.Decoder
	open  *limit.Sockets
}

// Mount adds the route, for users and operators.
func (h *clientSockets) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/ws/client", h.get)
}

// clientQuery narrows to one thread. A run_id is here what it is in the frames: our Session. One of the two at most
// may be given.
type clientQuery struct {
	RunID    string `query:"run_id" validate:"max=128,excluded_with=ThreadID"`
	ThreadID string `query:"thread_id" validate:"max=128"`
}

// get makes the request a socket that only sends. The watch begins before the upgrade, so that nothing is missed
// between the client's "open" event and the first frame; and the place of the socket is taken before both, so that a
// refusal is still an HTTP answer. The place is freed when the socket has ended, by whichever side.
func (h *clientSockets) get(c echo.Context) error {
	if h.hub == nil {
		return store.ErrNotFound
	}
	if err := wsconn.CheckUpgrade(c.Request()); err != nil {
		return err
	}
	wanted, err := h.wanted(c)
	if err != nil {
		return err
	}
	slot, err := h.open.Admit(auth.From(c.Request().Context()).Principal)
	if err != nil {
		return err
	}
	defer slot.Leave()
	// Closing it does not end a Next that waits; the connection's context does.
	watch := h.hub.Subscribe(wanted)
	defer watch.Close()
	conn, err := wsconn.Open(c, h.in.Limits)
	if err != nil {
		return err
	}
	// Revoking either of them ends the request's context, and with it the socket.
	// It is read here and not above: wanted may have replaced it by the share's.
	conn.EndWith(c.Request().Context()) // the credential, or the share of the thread
	// One task sends, and another reads until the page leaves; the end of either ends both.
	conn.Serve(h.open.Draining, func() {
		conn.Tasks.Go(func() {
			defer conn.End(websocket.CloseNormalClosure, "")
			sendHints(conn, watch)
		})
		conn.Discard(clientFrame)
	})
	return nil
}

// clientFrame bounds what a page may send, which is not read. Reading goes on all the same, because pings and the
// close frame of the page arrive that way.
const clientFrame = 4 << 10

// sendHints sends what the watch gives until the connection or the watch ends. A slow page blocks this goroutine
// alone: the hub drops what its watch has no room for.
func sendHints(conn *wsconn.Conn, watch *livefeed.Watch) {
	if conn.Ping() != nil {
		return
	}
	for {
		frames, err := watch.Next(conn.Ctx)
		if err != nil {
			return
		}
		for _, frame := range frames {
			if conn.SendRaw(frame) != nil {
				return
			}
		}
	}
}

// wanted is what the caller may watch. For a thread that is not the caller's own, the rights of the share are what
// counts, and the request's context ends with it. Without a thread it is everything in the caller's scope; operators
// see what proxies do as well.
func (h *clientSockets) wanted(c echo.Context) (livefeed.Wanted, error) {
	var q clientQuery
	if err := h.in.Query(c, &q); err != nil {
		return livefeed.Wanted{}, err
	}
	ctx, caller := callerOf(c)
	wanted := livefeed.Wanted{In: caller.Scope(), Proxies: operates(caller)}
	s, err := h.session(ctx, q, caller.Scope())
	if id := cmp.Or(q.ThreadID, q.RunID); errors.Is(err, store.ErrNotFound) && id != "" {
		var a store.Access
		if a, err = shared(c, h.store, store.AccessBy{SessionID: id}); err == nil {
			s, wanted.In = a.Session, a.Scope()
		}
	}
	wanted.SessionID = s.ID
	return wanted, err
}

// session is the one that is asked for; the zero one when none is. A thread that does not exist is an error: the page
// has a wrong id and would wait in silence.
func (h *clientSockets) session(ctx context.Context, q clientQuery, in store.Scope) (store.Session, error) {
	switch {
	case q.ThreadID != "":
		return h.store.SessionByExternalID(ctx, in, q.ThreadID)
	case q.RunID != "":
		return h.store.Session(ctx, in, q.RunID)
	}
	return store.Session{}, nil
}
