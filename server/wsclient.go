package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge/hints"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// clientSockets is /ws/client: hints for pages about what happens now. It tells only what
// the caller may see, and not all of that: the log is the truth.
type clientSockets struct {
	hub   *hints.Hub
	store store.Store
	in    *intake
	open  *sockets
}

func (h *clientSockets) mount(to *routes) {
	to.callers(http.MethodGet, "/ws/client", h.get)
}

// clientQuery narrows to one thread. A run_id is here what it is in the frames: our Session.
type clientQuery struct {
	RunID    string `query:"run_id" validate:"max=128,excluded_with=ThreadID"`
	ThreadID string `query:"thread_id" validate:"max=128"`
}

func (h *clientSockets) get(c echo.Context) error {
	if h.hub == nil {
		return store.ErrNotFound
	}
	if !websocket.IsWebSocketUpgrade(c.Request()) {
		return refuse(codeUpgrade, "")
	}
	wanted, err := h.wanted(c)
	if err != nil {
		return err
	}
	slot, err := h.open.admit(auth.From(c.Request().Context()).Principal)
	if err != nil {
		return err
	}
	defer slot.leave()
	// Before the upgrade, so that whoever is connected misses nothing.
	watch := h.hub.Subscribe(wanted)
	defer watch.Close()
	conn, err := upgrader().Upgrade(c.Response(), c.Request(), nil)
	if err != nil {
		return refuse(codeUpgrade, "")
	}
	s := &clientSocket{conn: conn, watch: watch, limits: h.in.limits}
	s.serve(h.open.draining, c.Request().Context())
	return nil
}

// upgrader answers no failure itself, and leaves the Origin to the guard, which has
// judged it already.
func upgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		CheckOrigin: func(*http.Request) bool { return true },
		Error:       func(http.ResponseWriter, *http.Request, int, error) {},
	}
}

func (h *clientSockets) wanted(c echo.Context) (hints.Wanted, error) {
	var q clientQuery
	if err := h.in.query(c, &q); err != nil {
		return hints.Wanted{}, err
	}
	ctx := c.Request().Context()
	caller := auth.From(ctx)
	wanted := hints.Wanted{In: caller.Scope(), Proxies: operates(caller)}
	s, err := h.session(ctx, q, caller.Scope())
	if id := firstOf(q.ThreadID, q.RunID); errors.Is(err, store.ErrNotFound) && id != "" {
		var a store.Access
		if a, err = shared(c, h.store, store.AccessBy{SessionID: id}); err == nil {
			s, wanted.In = a.Session, a.Scope()
		}
	}
	wanted.SessionID = s.ID
	return wanted, err
}

// session is the one that is asked for; the zero one when none is.
func (h *clientSockets) session(ctx context.Context, q clientQuery, in store.Scope) (store.Session, error) {
	switch {
	case q.ThreadID != "":
		return h.store.SessionByExternalID(ctx, in, q.ThreadID)
	case q.RunID != "":
		return h.store.Session(ctx, in, q.RunID)
	}
	return store.Session{}, nil
}
